package httpapi

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/koala/koalahttp"
)

var (
	admitRoute = huma.Operation{
		OperationID: "admit", Method: http.MethodPost, Path: "/v1/admit", Summary: "Decide a request; a denial is an answer, too", Tags: deciding,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
	}
	batchRoute = huma.Operation{
		OperationID: "admit-batch", Method: http.MethodPost, Path: "/v1/admit/batch", Summary: "Decide up to 100 requests, each by itself",
		Tags: deciding, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422},
	}
	explainRoute = huma.Operation{
		OperationID: "explain", Method: http.MethodGet, Path: "/v1/explain", Summary: "Where a caller stands in every rule; nothing is charged",
		Tags: deciding, Errors: []int{401, 403, 422, 503}, RejectUnknownQueryParameters: true,
	}
	bansRoute = huma.Operation{
		OperationID: "list-bans", Method: http.MethodGet, Path: "/v1/bans", Summary: "The bans in force", Tags: banning, Errors: []int{401, 403, 422},
	}
	putBanRoute = huma.Operation{
		OperationID: "put-ban", Method: http.MethodPut, Path: "/v1/bans/{kind}/{value}", Summary: "Ban a user, address, network or device", Tags: banning,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
	}
	deleteBanRoute = huma.Operation{
		OperationID: "delete-ban", Method: http.MethodDelete, Path: "/v1/bans/{kind}/{value}", Summary: "Lift a ban, everywhere, and forget what failed to log in from the address", Tags: banning,
		DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
	}
	banHistoryRoute = huma.Operation{
		OperationID: "ban-history", Method: http.MethodGet, Path: "/v1/bans/history", Summary: "Bans as they were made and lifted, the newest first",
		Tags: banning, Errors: []int{401, 403, 422, 503},
	}

	deciding = []string{"Decisions"}
	banning  = []string{"Bans"}
)

// services registers the routes of the internal listener for services, gateways and monitoring.
func (a *API) services(docs huma.API) {
	register(a, docs, auth.ForServices, admitRoute, a.admit)
	register(a, docs, auth.ForServices, batchRoute, a.admitBatch)
	register(a, docs, auth.ForReaders, explainRoute, a.explain)
	if a.loginRoutes != nil {
		a.logins(docs)
	}
	a.gateways(docs.OpenAPI())
	if a.koala != nil {
		a.koalas(docs.OpenAPI())
	}
	if a.metrics != nil {
		a.internal.GET("/metrics", echo.WrapHandler(a.metrics), needs(auth.ForScrapers))
		docs.OpenAPI().AddOperation(&huma.Operation{
			OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "Metrics for Prometheus", Tags: health,
			Responses: refusals(&huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {}}}, 401, 403),
		})
	}
}

// gateways registers authz without Huma, which would read the body.
func (a *API) gateways(described *huma.OpenAPI) {
	fields := map[string]*huma.Param{}
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		fields[name] = &huma.Param{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	for _, method := range authzMethods {
		a.internal.Add(method, authzPath, a.authz, needs(auth.ForServices))
		a.internal.Add(method, authzBelow, a.authz, needs(auth.ForServices))
		described.AddOperation(&huma.Operation{
			OperationID: "authz-" + method, Method: method, Path: authzPath, Summary: "For gateways: whether to pass a request on, by what they forward",
			Tags: deciding, Parameters: authzParameters,
			Responses: refusals(&huma.Response{Description: "Pass it on", Headers: fields}, 401, 403, 422, 429, 503),
		})
		described.AddOperation(&huma.Operation{
			OperationID: "authz-below-" + method, Method: method, Path: authzPath + "/{path}",
			Summary: "For Envoy: the same for the path behind /v1/authz and the method of this call", Tags: deciding,
			Parameters: append([]*huma.Param{{Name: "path", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Any number of segments"}}, callerParameters...),
			Responses:  refusals(&huma.Response{Description: "Pass it on", Headers: fields}, 401, 403, 422, 429, 503),
		})
	}
}

var (
	callerParameters = []*huma.Param{
		forwardedForParameter,
		headerParameter("X-User-ID", "The user, where the gateway names them"),
		headerParameter("X-User-Tier", "Their tier; without it registered with a user and anonymous without"),
	}
	forwardedForParameter = headerParameter("X-Forwarded-For",
		"Believed from TRUSTED_PROXIES only: the right-most address that is none of them is the client's. From others the connection's address counts")
	authzParameters = append([]*huma.Param{
		headerParameter("X-Forwarded-Uri", "URI of the client's request; nginx: X-Original-URI"),
		headerParameter("X-Forwarded-Method", "Its method; nginx: X-Original-Method"),
		headerParameter("X-Forwarded-Host", "Its host, to rules the attribute host"),
		{
			Name: "deny", In: "query", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"403"}},
			Description: "For gateways that hand on no other refusal: 403 in place of all, and the true status in X-Admission-Status",
		},
	}, callerParameters...)
)

func headerParameter(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: doc}
}

// refusals documents a response and the problems that may replace it.
func refusals(ok *huma.Response, statuses ...int) map[string]*huma.Response {
	all := map[string]*huma.Response{"200": ok}
	for _, status := range statuses {
		all[strconv.Itoa(status)] = problemResponse(status)
	}
	return all
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

// koalas registers Koala's endpoints without Huma, whose errors have another format.
func (a *API) koalas(described *huma.OpenAPI) {
	handlers := koalahttp.New(a.koala, a.log)
	for _, e := range koalahttp.Endpoints {
		a.internal.GET(koalahttp.Path+e.Path, handlers.Serve(e), needs(e.Roles))
		op := e.Describe(described.Components.Schemas)
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			op.Responses[strconv.Itoa(status)] = problemResponse(status)
		}
		described.AddOperation(op)
	}
}
