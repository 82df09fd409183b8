package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/audit"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

var (
	livezRoute  = huma.Operation{OperationID: "livez", Method: http.MethodGet, Path: "/livez", Summary: "Whether the process runs", Tags: tagHealth}
	readyzRoute = huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Whether the process can serve",
		Tags: tagHealth, Errors: []int{503},
	}
	saleRoute = huma.Operation{
		OperationID: "get-sale", Method: http.MethodGet, Path: "/v1/sales/{sale}", Summary: "A sale and what is left of it",
		Tags: tagSales, Errors: []int{401, 403, 404, 422, 429, 503},
	}
	placeRoute = huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: "/v1/sales/{sale}/orders", Summary: "Order units of an item",
		Tags: tagOrders, DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxOrder + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 429, 503},
	}
	orderRoute = huma.Operation{
		OperationID: "get-order", Method: http.MethodGet, Path: "/v1/orders/{id}", Summary: "An order, also when it changes",
		Tags: tagOrders, Errors: []int{401, 403, 404, 422, 429, 503},
	}
	ownOrdersRoute = huma.Operation{
		OperationID: "list-own-orders", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders",
		Summary: "The caller's own orders in a sale", Tags: tagOrders, Errors: []int{401, 403, 404, 422, 429, 503},
	}

	allOrdersRoute = huma.Operation{
		OperationID: "list-orders", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders",
		Summary: "All orders in a sale", Tags: tagOperating, Errors: []int{401, 403, 404, 422, 503},
	}
	salesRoute = huma.Operation{
		OperationID: "list-sales", Method: http.MethodGet, Path: "/v1/sales", Summary: "All sales", Tags: tagOperating,
		Errors: []int{401, 403, 422, 503},
	}
	putSaleRoute = huma.Operation{
		OperationID: "put-sale", Method: http.MethodPut, Path: "/v1/sales/{sale}", Summary: "Define a sale, or change it",
		Tags: tagOperating, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
	}
	verifyRoute = huma.Operation{
		OperationID: "verify-sale", Method: http.MethodGet, Path: "/v1/sales/{sale}/verify",
		Summary: "Check a sale's invariants", Tags: tagOperating, Errors: []int{401, 403, 404, 503},
	}
	rulesRoute = huma.Operation{
		OperationID: "get-rules", Method: http.MethodGet, Path: "/v1/rules", Summary: "The rules in force", Tags: tagOperating,
		Errors: []int{401, 403},
	}

	reloadRoute = huma.Operation{
		OperationID: "reload-rules", Method: http.MethodPost, Path: "/v1/rules/reload",
		Summary: "Put the rules file as it is now into force; after 422 the old rules stay", Tags: tagOperating, Errors: []int{401, 403, 422},
	}

	auditRoute = huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "What operators changed, the newest first",
		Tags: tagOperating, Errors: []int{401, 403, 422, 503},
	}
	challengeRoute = huma.Operation{
		OperationID: "captcha-challenge", Method: http.MethodGet, Path: challenge.Path, Summary: "A challenge to solve",
		Tags: []string{"CAPTCHA"}, Errors: []int{401, 403, 422, 429, 503},
	}

	placePattern, salePattern, orderPattern = echoPattern(placeRoute), echoPattern(saleRoute), echoPattern(orderRoute)

	tagHealth    = []string{"Health"}
	tagSales     = []string{"Sales"}
	tagOrders    = []string{"Orders"}
	tagOperating = []string{"Operating"}
)

// echoPattern returns an operation's path in Echo's syntax.
func echoPattern(op huma.Operation) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(op.Path)
}

func switchRoute(verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb + "-sale", Method: http.MethodPost, Path: "/v1/sales/{sale}/" + verb, Summary: summary, Tags: tagOperating,
		Errors: []int{401, 403, 404, 409, 503},
	}
}

// registerCommon registers the routes of both listeners. On the public one, reading is charged by the rules; on the internal one,
// reading and placing need a role.
func (a *API) registerCommon(docs huma.API, public bool, reading, placing huma.Middlewares) {
	huma.Register(docs, livezRoute, a.health.Livez)
	huma.Register(docs, readyzRoute, a.health.Readyz)
	sale, order := saleRoute, orderRoute
	sale.Middlewares, order.Middlewares = reading, reading
	if public {
		sale.Parameters, order.Parameters = captchaParameter, captchaParameter
	}
	huma.Register(docs, sale, a.reader.Sale)
	quick := placeRoute
	quick.Middlewares = append(placing, a.placer.FastPlace)
	huma.Register(docs, quick, a.placer.Place)
	huma.Register(docs, order, a.reader.Order)
}

// registerOwn registers the routes of the public listener for buyers' own orders. The internal listener has others, which need a role.
func (a *API) registerOwn(docs huma.API) {
	list, cancel := ownOrdersRoute, cancelRoute
	list.Middlewares, cancel.Middlewares = huma.Middlewares{a.charger.Middleware}, huma.Middlewares{a.charger.Middleware}
	list.Parameters, cancel.Parameters = captchaParameter, captchaParameter
	huma.Register(docs, list, a.reader.OwnOrders)
	huma.Register(docs, cancel, a.changes.Cancel)
}

// captchaParameter documents X-Captcha on routes whose handlers do not read it.
var captchaParameter = []*huma.Param{headerParameter(challenge.SolutionField, "Solution of the challenge that a refusal with captcha_required named; good for one request")}

// registerChallenges registers the route of challenges, if there are any.
func (a *API) registerChallenges(docs huma.API, middlewares huma.Middlewares) {
	if a.challenges == nil {
		return
	}
	op := challengeRoute
	op.Middlewares = middlewares
	huma.Register(docs, op, a.challenges.Challenge)
}

// registerOperators registers the routes of the internal listener only.
func (a *API) registerOperators(docs huma.API) {
	register(a, docs, auth.ForReaders, allOrdersRoute, a.reader.AllOrders)
	register(a, docs, auth.ForReaders, eventsRoute, a.orderFeed.Events)
	register(a, docs, auth.ForServices, payRoute, audit.ByOperators(a.audit, payRoute, a.changes.Pay))
	register(a, docs, auth.ForServices, cancelRoute, audit.ByOperators(a.audit, cancelRoute, a.changes.Cancel))
	register(a, docs, auth.ForViewers, deadLettersRoute, a.letters.List)
	register(a, docs, auth.ForOperators, replayRoute, a.letters.Replay)
	register(a, docs, auth.ForViewers, salesRoute, a.saleAdmin.Sales)
	register(a, docs, auth.ForOperators, putSaleRoute, a.saleAdmin.PutSale)
	responses := docs.OpenAPI().Paths[putSaleRoute.Path].Put.Responses
	responses["201"] = &huma.Response{Description: "Created", Content: responses["200"].Content}
	register(a, docs, auth.ForOperators, switchRoute("open", "Publish or resume a sale; its hours still apply"), a.saleAdmin.SetSwitch(orders.SwitchOpen))
	register(a, docs, auth.ForOperators, switchRoute("pause", "Pause a sale"), a.saleAdmin.SetSwitch(orders.SwitchPaused))
	register(a, docs, auth.ForOperators, switchRoute("close", "End a sale for good"), a.saleAdmin.SetSwitch(orders.SwitchClosed))
	register(a, docs, auth.ForViewers, verifyRoute, a.saleAdmin.Verify)
	docs.OpenAPI().Components.Schemas.Map()["Check"].AdditionalProperties = true // like all responses, it may gain fields
	register(a, docs, auth.ForViewers, rulesRoute, a.rules.Get)
	register(a, docs, auth.ForOperators, reloadRoute, a.rules.Reload)
	register(a, docs, auth.ForViewers, bansRoute, a.bans.List)
	register(a, docs, auth.ForOperators, putBanRoute, a.bans.Put)
	register(a, docs, auth.ForOperators, deleteBanRoute, a.bans.Delete)
	register(a, docs, auth.ForViewers, banHistoryRoute, a.bans.ListHistory)
	if a.audit.Store != nil {
		register(a, docs, auth.ForViewers, auditRoute, a.audit.List)
	}
	if a.permits != nil {
		a.registerPermits(docs)
		a.registerReports(docs.OpenAPI())
	}
}

// register is huma.Register for routes that need a role.
func register[I, O any](a *API, docs huma.API, roles []auth.Role, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.Middlewares = huma.Middlewares{a.only(roles)}
	if len(roles) == 0 && op.Method != http.MethodGet {
		op.Middlewares = append(huma.Middlewares{a.audit.Refused(op)}, op.Middlewares...)
		handler = audit.Handler(a.audit, op, handler)
	}
	huma.Register(docs, op, handler)
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
