package httpapi

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/koala/koalahttp"
)

// tokenless are the routes that need no token. The page is the same for everybody, and contains no data; its stream needs a
// token or session.
var tokenless = map[string]bool{
	"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/problems/:name": true,
	pagePath: true, assetsPath + "*": true, sessionPath: true,
}

// guarded is the middleware that admits callers to the internal listener.
func (a *API) guarded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		r, route := request.Of(c.Request().Context()), c.Path()
		r.Guard = a.guard
		r.Grant, err = a.guard.Check(r.HTTP, auth.Route{
			Open: tokenless[route], Session: route == sessionPath, Basic: admit.IsAuthz(route) || strings.HasPrefix(route, koalahttp.Path),
			Gateway: admit.IsAuthz(route), Page: route == pagePath,
		})
		if err != nil {
			return err
		}
		return next(c)
	}
}
