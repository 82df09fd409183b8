package rooms

import (
	"context"
	"encoding/csv"
	"io"
	"log/slog"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/attachment"
	"github.com/tidegate/tidegate/internal/reports"
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
	return attachment.CSV(c, h.Log, "draw-"+room+".csv", func(w io.Writer) error { return h.Rooms.WriteDraw(ctx, room, w) })
}

// Places streams all places page by page.
func (h *Export) Places(c echo.Context) error {
	ctx, room := c.Request().Context(), c.Param("room")
	return attachment.CSV(c, h.Log, "places-"+room+".csv", func(w io.Writer) error { return h.writePlaces(ctx, w, room) })
}

var placesHeader = []string{"number", "user", "state", "position", "quantity", "joined_at", "turn_until", "admitted_at", "pass_until", "done_at", "left_at", "order_id", "reason", "lane"}

func (h *Export) writePlaces(ctx context.Context, w io.Writer, room string) error {
	const pageSize = 1000
	rows := csv.NewWriter(w)
	f := waitingroom.Filter{Limit: pageSize}
	for first := true; ; first = false {
		places, err := h.Rooms.Places(ctx, room, f)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if first {
			_ = rows.Write(placesHeader) // errors are kept until Flush
		}
		for i := range places {
			p := &places[i]
			position := ""
			if p.Position > 0 {
				position = strconv.FormatInt(p.Position, 10)
			}
			_ = rows.Write([]string{
				strconv.FormatInt(p.Number, 10), reports.Harmless(p.User), string(p.State), position, strconv.Itoa(p.Quantity), reports.Instant(p.JoinedAt),
				reports.Instant(p.TurnUntil), reports.Instant(p.AdmittedAt), reports.Instant(p.PassUntil), reports.Instant(p.DoneAt),
				reports.Instant(p.LeftAt), p.OrderID, reports.Harmless(p.Reason), p.Lane,
			})
		}
		if rows.Flush(); rows.Error() != nil {
			return rows.Error()
		}
		if len(places) < pageSize {
			return nil
		}
		f.After = places[len(places)-1].Number
	}
}
