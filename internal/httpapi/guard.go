package httpapi

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// tokenless are the routes that need no token. The page is the same for everybody, and contains no data; its stream needs a
// token or session.
var tokenless = map[string]bool{
	"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/problems/:name": true,
	live.PagePath: true, route.Pattern(live.AssetsPath): true, live.SessionPath: true,
}

// isTokenless reports whether an operation is of one of these routes.
func isTokenless(path string) bool { return tokenless[route.Pattern(path)] }

// guarded is the middleware that admits callers to the internal listener.
func (a *API) guarded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		r, path := request.Of(c.Request().Context()), c.Path()
		r.Guard = a.guard
		r.Grant, err = a.guard.Check(r.HTTP, auth.Route{
			Open: tokenless[path], Session: path == live.SessionPath, Basic: admit.IsAuthz(path) || strings.HasPrefix(path, koalahttp.Path),
			Gateway: admit.IsAuthz(path), Page: path == live.PagePath,
		})
		if err != nil {
			return err
		}
		return next(c)
	}
}
