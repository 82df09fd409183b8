package rooms

import (
	"context"
	"io"
	"log/slog"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/httpapi/attachment"
	"github.com/tidegate/tidegate/waitingroom"
)

// Export is the handlers for files about a room.
type Export struct {
	Rooms *waitingroom.Service
	Log   *slog.Logger
}

// Draw streams the list of a draw, with which anybody can verify it. It contains no user.
func (h *Export) Draw(c echo.Context) error {
	ctx, room := c.Request().Context(), c.Param("room")
	return attachment.Send(c, h.Log, "draw-"+room, func(w io.Writer, f export.Format) error {
		if f == export.NDJSON {
			return h.Rooms.WriteDrawJSON(ctx, room, w)
		}
		return h.Rooms.WriteDraw(ctx, room, w)
	})
}

// Places streams all places page by page.
func (h *Export) Places(c echo.Context) error {
	ctx, room := c.Request().Context(), c.Param("room")
	return attachment.Send(c, h.Log, "places-"+room, func(w io.Writer, f export.Format) error { return h.writePlaces(ctx, w, f, room) })
}

var placesColumns = []string{"number", "user", "state", "position", "quantity", "joined_at", "turn_until", "admitted_at", "pass_until", "done_at", "left_at", "order_id", "reason", "lane"}

func (h *Export) writePlaces(ctx context.Context, w io.Writer, f export.Format, room string) error {
	return export.Write(ctx, w, f, placesColumns, func(last *waitingroom.Place) ([]waitingroom.Place, error) {
		filter := waitingroom.Filter{Limit: export.PageSize}
		if last != nil {
			filter.After = last.Number
		}
		return h.Rooms.Places(ctx, room, filter)
	}, func(p *waitingroom.Place) []any {
		position := any(nil) // it is not known before the draw
		if p.Position > 0 {
			position = p.Position
		}
		return []any{
			p.Number, p.User, string(p.State), position, p.Quantity, p.JoinedAt, p.TurnUntil, p.AdmittedAt, p.PassUntil, p.DoneAt, p.LeftAt, p.OrderID,
			p.Reason, p.Lane,
		}
	})
}
