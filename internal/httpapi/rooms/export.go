package rooms

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/waitingroom"
)

// Export is the handlers for files about a room.
type Export struct {
	Rooms *waitingroom.Service
	Log   *slog.Logger
	Limit echo.MiddlewareFunc // on files of places at once; nil: none
}

// Routes are the routes of the files.
func (h *Export) Routes() []route.Route {
	var limits []echo.MiddlewareFunc
	if h.Limit != nil {
		limits = append(limits, h.Limit)
	}
	return []route.Route{
		route.Plain(route.Route{
			Operation: huma.Operation{
				OperationID: "draw-csv", Method: http.MethodGet, Path: RoomPath + "/draw.csv",
				Summary: "All who took part in the draw, as hashes, with which anybody can verify it; 409 before",
				Description: "The text that verification reads. With `Accept: application/x-ndjson` a JSON object per line: the fields before the " +
					"columns, then each place.",
				Tags: tagRooms, Parameters: roomParameter(),
				Responses: route.Responses(route.Content(response.FileTypes...), 401, 403, 404, 409, 429, 503),
			},
			Public: route.Charged, Roles: auth.ForReaders, Bound: route.Bound{Most: 8, PerAddress: 2}, Lasting: true,
		}, h.Draw),
		route.Plain(route.Route{
			Operation: huma.Operation{
				OperationID: "places-csv", Method: http.MethodGet, Path: RoomPath + "/places.csv", Summary: "All places of a room as CSV or NDJSON",
				Description: response.LimitedFileText, Tags: tagRooms, Parameters: roomParameter(),
				Responses: route.Responses(route.Content(response.FileTypes...), 401, 403, 404, 503),
			},
			Roles: auth.ForServices, Lasting: true, Steps: limits,
		}, h.Places),
	}
}

// Draw streams the list of a draw, with which anybody can verify it. It contains no user.
func (h *Export) Draw(c echo.Context) error {
	ctx, room := c.Request().Context(), c.Param("room")
	return response.SendFile(c, h.Log, "draw-"+room, func(w io.Writer, f export.Format) error {
		if f == export.NDJSON {
			return h.Rooms.WriteDrawJSON(ctx, room, w)
		}
		return h.Rooms.WriteDraw(ctx, room, w)
	})
}

// Places streams all places page by page.
func (h *Export) Places(c echo.Context) error {
	ctx, room := c.Request().Context(), c.Param("room")
	return response.SendFile(c, h.Log, "places-"+room, func(w io.Writer, f export.Format) error { return h.writePlaces(ctx, w, f, room) })
}

var placesColumns = []string{
	"number", "user", "state", "position", "quantity", "joined_at", "turn_until", "admitted_at", "pass_until",
	"done_at", "left_at", "order_id", "reason", "lane",
}

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
			p.Number, p.User, string(p.State), position, p.Quantity, p.JoinedAt, p.TurnUntil, p.AdmittedAt, p.PassUntil, p.DoneAt, p.LeftAt,
			p.OrderID,
			p.Reason, p.Lane,
		}
	})
}
