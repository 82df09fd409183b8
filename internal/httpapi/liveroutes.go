package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/livepage"
)

// Paths of the page.
const (
	pagePath    = "/"
	assetsPath  = "/assets/"
	eventsPath  = "/events"
	sessionPath = "/session"
)

var (
	tagPage      = []string{"Page"}
	sessionRoute = huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: sessionPath, Summary: "Who looks at the page, by its cookie", Tags: tagPage,
		Security: []map[string][]string{},
	}
	beginRoute = huma.Operation{
		OperationID: "begin-session", Method: http.MethodPost, Path: sessionPath,
		Summary: "Take a token once, for a cookie that holds for 12 hours: HttpOnly, SameSite=Strict, and Secure behind TLS", Tags: tagPage,
		Security: []map[string][]string{}, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 429},
	}
	endRoute = huma.Operation{
		OperationID: "end-session", Method: http.MethodDelete, Path: sessionPath, Summary: "End the cookie's session, also again", Tags: tagPage,
		Security: []map[string][]string{}, DefaultStatus: http.StatusNoContent, Errors: []int{403, 503},
	}
)

// registerPage registers the live page, its stream and its sessions.
func (a *API) registerPage(docs huma.API) {
	huma.Register(docs, sessionRoute, a.sessions.Get)
	if a.tokens != nil { // without tokens there is no sign-in
		huma.Register(docs, beginRoute, a.sessions.Begin)
		huma.Register(docs, endRoute, a.sessions.End)
	}
	a.internal.GET(pagePath, echo.WrapHandler(livepage.Page(a.version)))
	a.internal.GET(assetsPath+"*", echo.WrapHandler(http.StripPrefix(assetsPath, livepage.Assets())))
	a.internal.GET(eventsPath, echo.WrapHandler(a.feed.Stream(a.leaving.Done(), a.mayStay)), needs(auth.ForViewers))
	for path, kind := range map[string]string{pagePath: "text/html", eventsPath: "text/event-stream"} {
		docs.OpenAPI().AddOperation(&huma.Operation{
			OperationID: map[string]string{pagePath: "page", eventsPath: "events"}[path], Method: http.MethodGet, Path: path,
			Summary: map[string]string{pagePath: "The live page", eventsPath: "Its stream: history, then a frame a second"}[path], Tags: tagOperating,
			Responses: refusals(&huma.Response{Description: "OK", Content: map[string]*huma.MediaType{kind: {}}}, 401, 403),
		})
	}
}

// mayStay reports whether a caller that was admitted would be admitted again.
func (a *API) mayStay(r *http.Request) bool { return a.guard.Holds(r, request.Of(r.Context()).Grant) }
