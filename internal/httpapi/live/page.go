package live

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/livepage"
)

// Paths of the page.
const (
	PagePath   = "/"
	AssetsPath = "/assets/{path}"
	EventsPath = "/events"
)

// Page is the handlers of the page, its files and its stream. The page is the same for everybody, and contains no data; its
// stream needs a token or session.
type Page struct {
	Version string
	Feed    *livepage.Feed
	Leaving <-chan struct{} // closed when draining begins
}

// Routes are the routes of the page.
func (h *Page) Routes() []route.Route {
	of := func(op huma.Operation) route.Route {
		op.Method, op.Tags = http.MethodGet, route.TagOperating
		return route.Route{Operation: op, Roles: auth.ForEverybody}
	}
	stream := of(huma.Operation{
		OperationID: "events", Path: EventsPath, Summary: "Its stream: history, then a frame a second",
		Responses: route.Responses(route.Content("text/event-stream"), 401, 403, 503),
	})
	stream.Roles, stream.Lasting = auth.ForViewers, true
	return []route.Route{
		route.Plain(of(huma.Operation{
			OperationID: "page", Path: PagePath, Summary: "The live page", Responses: route.Responses(route.Content("text/html"), 401, 403),
		}), echo.WrapHandler(livepage.Page(h.Version))),
		route.Plain(of(huma.Operation{
			OperationID: "page-assets", Path: AssetsPath, Summary: "Its scripts and style sheets",
			Parameters: []*huma.Param{route.PathParameter("path", "Name of the file")},
			Responses:  route.Responses(route.File("text/javascript", "text/css", "image/svg+xml", "text/plain"), 404),
		}), route.Handler(http.StripPrefix("/assets/", livepage.Assets()))),
		route.Plain(stream, route.Handler(h.Feed.Stream(h.Leaving))),
	}
}
