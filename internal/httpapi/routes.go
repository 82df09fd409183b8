package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/audit"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

var (
	livezRoute  = huma.Operation{OperationID: "livez", Method: http.MethodGet, Path: "/livez", Summary: "Whether the process runs", Tags: tagHealth}
	readyzRoute = huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Whether the process can serve",
		Tags: tagHealth, Errors: []int{503},
	}
	auditRoute = huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "What operators changed, the newest first",
		Tags: tagOperating, Errors: []int{401, 403, 422, 503},
	}

	tagHealth    = []string{"Health"}
	tagOperating = []string{"Operating"}
)

// registerInternal registers the routes that only the internal listener has, besides those of waiting rooms and pages.
func (a *API) registerInternal(docs huma.API) {
	a.registerDecisions(docs)
	a.registerSales(docs)
	if a.logins != nil {
		a.registerLogins(docs)
	}
	if a.permits != nil {
		a.registerPermits(docs)
		a.registerReports(docs.OpenAPI())
	}
	if a.audit.Store != nil {
		register(a, docs, auth.ForViewers, auditRoute, a.audit.List)
	}
	if a.metrics != nil {
		a.internal.GET("/metrics", plainHandler(a.metrics), needs(auth.ForScrapers))
		docs.OpenAPI().AddOperation(&huma.Operation{
			OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "Metrics for Prometheus", Tags: tagHealth,
			Responses: refusals(content("text/plain"), 401, 403),
		})
	}
}

// registerProbes registers the routes of health, which both listeners have.
func (a *API) registerProbes(docs huma.API) {
	huma.Register(docs, livezRoute, a.health.Livez)
	huma.Register(docs, readyzRoute, a.health.Readyz)
}

// register is huma.Register for routes that need a role.
func register[I, O any](a *API, docs huma.API, roles []auth.Role, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.Middlewares = huma.Middlewares{a.only(roles)}
	if auth.OnlyOperators(roles) && op.Method != http.MethodGet {
		op.Middlewares = append(huma.Middlewares{a.audit.Refused(op)}, op.Middlewares...)
		handler = audit.Handler(a.audit, op, handler)
	}
	huma.Register(docs, op, handler)
}

// with returns an operation with middlewares, and with parameters that its handler does not read.
func with(op huma.Operation, middlewares huma.Middlewares, parameters []*huma.Param) huma.Operation {
	op.Middlewares, op.Parameters = middlewares, parameters
	return op
}

// shared returns an operation that answers with a document of type T, as package document serves it.
func shared[T any](docs huma.API, op huma.Operation) huma.Operation {
	op.Responses = map[string]*huma.Response{"200": apidocs.Fields(&huma.Response{Content: map[string]*huma.MediaType{
		"application/json": {Schema: docs.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")},
	}}, "ETag")}
	return op
}

// only is the middleware of operations that need a role.
func (a *API) only(roles []auth.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if has := request.Of(ctx.Context()).Grant.Role; !has.May(roles) {
			a.errors.Fail(humaecho.Unwrap(ctx), auth.WrongRole(has, roles))
			return
		}
		next(ctx)
	}
}

// echoPattern returns an operation's path in Echo's syntax.
func echoPattern(op huma.Operation) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(op.Path)
}

func headerParameter(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: doc}
}

// content documents a response of content types whose text has no schema.
func content(types ...string) *huma.Response {
	r := &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{}}
	for _, kind := range types {
		r.Content[kind] = &huma.MediaType{}
	}
	return r
}

// file documents a file that clients may keep and revalidate.
func file(types ...string) *huma.Response { return apidocs.Fields(content(types...), "ETag") }

var fileParameter = []*huma.Param{{Name: "path", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the file"}}

// refusals documents a response and the problems that may replace it.
func refusals(ok *huma.Response, statuses ...int) map[string]*huma.Response {
	all := map[string]*huma.Response{"200": ok}
	for _, status := range statuses {
		all[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
	}
	return all
}

// isTokenless reports whether an operation is of one of the routes that need no token.
func isTokenless(path string) bool {
	return tokenless[strings.ReplaceAll(echoPattern(huma.Operation{Path: path}), ":path", "*")]
}

// needs is the middleware of routes that need a role and are not registered with Huma.
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
