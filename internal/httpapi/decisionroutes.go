package httpapi

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/koala/koalahttp"
)

var (
	admitRoute = huma.Operation{
		OperationID: "admit", Method: http.MethodPost, Path: "/v1/admit", Summary: "Decide a request; a denial is an answer, too", Tags: tagDecisions,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
	}
	batchRoute = huma.Operation{
		OperationID: "admit-batch", Method: http.MethodPost, Path: "/v1/admit/batch", Summary: "Decide up to 100 requests, each by itself",
		Tags: tagDecisions, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422},
	}
	explainRoute = huma.Operation{
		OperationID: "explain", Method: http.MethodGet, Path: "/v1/explain", Summary: "Where a caller stands in every rule; nothing is charged",
		Tags: tagDecisions, Errors: []int{401, 403, 422, 503}, RejectUnknownQueryParameters: true,
	}
	bansRoute = huma.Operation{
		OperationID: "list-bans", Method: http.MethodGet, Path: "/v1/bans", Summary: "The bans in force", Tags: tagBans, Errors: []int{401, 403, 422},
	}
	putBanRoute = huma.Operation{
		OperationID: "put-ban", Method: http.MethodPut, Path: "/v1/bans/{kind}/{value}", Summary: "Ban a user, address, network or device", Tags: tagBans,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
	}
	deleteBanRoute = huma.Operation{
		OperationID: "delete-ban", Method: http.MethodDelete, Path: "/v1/bans/{kind}/{value}", Summary: "Lift a ban, everywhere, and forget what failed to log in from the address", Tags: tagBans,
		DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 404, 422, 503},
	}
	banHistoryRoute = huma.Operation{
		OperationID: "ban-history", Method: http.MethodGet, Path: "/v1/bans/history", Summary: "Bans as they were made and lifted, the newest first",
		Tags: tagBans, Errors: []int{401, 403, 422, 503},
	}

	rulesRoute = huma.Operation{
		OperationID: "get-rules", Method: http.MethodGet, Path: "/v1/rules", Summary: "The rules in force", Tags: tagOperating,
		Errors: []int{401, 403},
	}
	reloadRoute = huma.Operation{
		OperationID: "reload-rules", Method: http.MethodPost, Path: "/v1/rules/reload",
		Summary: "Put the rules file as it is now into force; after 422 the old rules stay", Tags: tagOperating, Errors: []int{401, 403, 422},
	}

	tagDecisions = []string{"Decisions"}
	tagBans      = []string{"Bans"}
)

// registerDecisions registers the routes of decisions, rules and bans, which only the internal listener has.
func (a *API) registerDecisions(docs huma.API) {
	register(a, docs, auth.ForServices, admitRoute, a.decisions.Admit)
	register(a, docs, auth.ForServices, batchRoute, a.decisions.Batch)
	register(a, docs, auth.ForReaders, explainRoute, a.decisions.Explain)
	register(a, docs, auth.ForViewers, rulesRoute, a.rules.Get)
	register(a, docs, auth.ForOperators, reloadRoute, a.rules.Reload)
	register(a, docs, auth.ForViewers, bansRoute, a.bans.List)
	register(a, docs, auth.ForOperators, putBanRoute, a.bans.Put)
	register(a, docs, auth.ForOperators, deleteBanRoute, a.bans.Delete)
	register(a, docs, auth.ForViewers, banHistoryRoute, a.bans.ListHistory)
	a.registerGateways(docs.OpenAPI())
	if a.koala != nil {
		a.registerKoala(docs.OpenAPI())
	}
}

// registerGateways registers authz without Huma, which would read the body.
func (a *API) registerGateways(described *huma.OpenAPI) {
	passed := func() *huma.Response {
		return apidocs.Fields(&huma.Response{Description: "Pass it on"}, "RateLimit", "RateLimit-Policy", "X-User-ID")
	}
	for _, path := range []string{admit.AuthzPath, admit.AuthzBelow} {
		a.internal.Any(path, a.gateways.Authz, needs(auth.ForServices))
	}
	for _, method := range admit.AuthzMethods {
		described.AddOperation(&huma.Operation{
			OperationID: "authz-" + method, Method: method, Path: admit.AuthzPath, Summary: "For gateways: whether to pass a request on, by what they forward",
			Tags: tagDecisions, Parameters: authzParameters,
			Responses: refusals(passed(), 401, 403, 404, 422, 429, 503),
		})
		described.AddOperation(&huma.Operation{
			OperationID: "authz-below-" + method, Method: method, Path: admit.AuthzPath + "/{path}",
			Summary: "For Envoy: the same for the path behind /v1/authz and the method of this call", Tags: tagDecisions,
			Parameters: append([]*huma.Param{{Name: "path", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Any number of segments"}}, callerParameters...),
			Responses:  refusals(passed(), 401, 403, 422, 429, 503),
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
		{
			Name: "room", In: "query", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "A waiting room: without a pass of it the answer is 403 turn_required, until the room is closed. With one, X-User-ID of the answer is the pass's user",
		},
		headerParameter(admit.PassField, "The client's pass for room. Without it, Authorization: Bearer is read, unless that is the token of this call or of the user"),
	}, callerParameters...)
)

// registerKoala registers Koala's endpoints without Huma, whose errors have another format.
func (a *API) registerKoala(described *huma.OpenAPI) {
	handlers := koalahttp.New(a.koala, a.log)
	for _, e := range koalahttp.Endpoints {
		a.internal.GET(koalahttp.Path+e.Path, handlers.Serve(e), needs(e.Roles))
		op := e.Describe(described.Components.Schemas)
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			op.Responses[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
		}
		described.AddOperation(op)
	}
}
