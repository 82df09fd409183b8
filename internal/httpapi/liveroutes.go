package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
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
		for _, status := range []string{"204", "503"} {
			apidocs.Fields(docs.OpenAPI().Paths[sessionPath].Delete.Responses[status], "Set-Cookie")
		}
	}
	a.internal.GET(pagePath, echo.WrapHandler(livepage.Page(a.version)))
	a.internal.GET(assetsPath+"*", plainHandler(http.StripPrefix(assetsPath, livepage.Assets())))
	a.internal.GET(eventsPath, plainHandler(a.feed.Stream(a.leaving.Done())), needs(auth.ForViewers), lasting)
	for _, op := range []*huma.Operation{
		{OperationID: "page", Path: pagePath, Summary: "The live page", Responses: refusals(content("text/html"), 401, 403)},
		{OperationID: "page-assets", Path: assetsPath + "{path}", Summary: "Its scripts and style sheets", Parameters: fileParameter, Responses: refusals(file("text/javascript", "text/css", "image/svg+xml", "text/plain"), 404)},
		{OperationID: "events", Path: eventsPath, Summary: "Its stream: history, then a frame a second", Responses: refusals(content("text/event-stream"), 401, 403, 503)},
	} {
		op.Method, op.Tags = http.MethodGet, tagOperating
		docs.OpenAPI().AddOperation(op)
	}
}
