package route

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// A Listener is where routes are registered.
type Listener struct {
	Docs    huma.API
	Echo    *echo.Echo
	Private bool // the internal listener
	Errors  request.ErrorWriter
	Proxies auth.Proxies
	Charger Charger // of the public listener; nil: it has no route that is charged
	Audit   Auditor // of the internal listener

	actForUser []string // ids of operations
}

// A Charger asks the rules about requests.
type Charger interface {
	Middleware(ctx huma.Context, next func(huma.Context))
	ChallengeMiddleware(ctx huma.Context, next func(huma.Context))
	EchoMiddleware(next echo.HandlerFunc) echo.HandlerFunc
}

// Add registers the routes that the listener has. They must be made anew for each listener.
func (l *Listener) Add(routes []Route) {
	for i := range routes {
		r := &routes[i]
		op := r.Operation
		switch {
		case l.Private && r.Roles == nil, !l.Private && r.Public == Nowhere:
			continue
		case l.Private:
			if r.ActsForUser {
				l.actForUser = append(l.actForUser, op.OperationID)
			}
		case r.Public == Solving:
			op.Middlewares = append(huma.Middlewares{l.Charger.ChallengeMiddleware}, op.Middlewares...)
		case r.Public == Charged:
			op.Middlewares = append(huma.Middlewares{l.Charger.Middleware}, op.Middlewares...)
			op.Parameters = append(slices.Clip(op.Parameters), Captcha)
		}
		r.register(r, l, op)
	}
}

// ActsForUser reports whether the listener serves an operation on behalf of a user.
func (l *Listener) ActsForUser(operation string) bool {
	return slices.Contains(l.actForUser, operation)
}

// only is the middleware of operations that need a role.
func (l *Listener) only(roles []auth.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if has := request.Of(ctx.Context()).Grant.Role; !has.May(roles) {
			l.Errors.Fail(humaecho.Unwrap(ctx), auth.WrongRole(has, roles))
			return
		}
		next(ctx)
	}
}

// needs is the middleware of plain routes that need a role.
func needs(roles []auth.Role) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if has := request.Of(c.Request().Context()).Grant.Role; !has.May(roles) {
				return auth.WrongRole(has, roles)
			}
			return next(c)
		}
	}
}
