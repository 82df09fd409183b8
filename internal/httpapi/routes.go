package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

var (
	livezRoute  = huma.Operation{OperationID: "livez", Method: http.MethodGet, Path: "/livez", Summary: "Whether the process runs", Tags: health}
	readyzRoute = huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Whether the process can serve",
		Tags: health, Errors: []int{503},
	}
	saleRoute = huma.Operation{
		OperationID: "get-sale", Method: http.MethodGet, Path: "/v1/sales/{sale}", Summary: "A sale and what is left of it",
		Tags: tagSales, Errors: []int{401, 403, 404, 422, 429, 503},
	}
	placeRoute = huma.Operation{
		OperationID: "place-order", Method: http.MethodPost, Path: "/v1/sales/{sale}/orders", Summary: "Order units of an item",
		Tags: ordering, DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxOrder + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 429, 503},
	}
	orderRoute = huma.Operation{
		OperationID: "get-order", Method: http.MethodGet, Path: "/v1/orders/{id}", Summary: "An order, also when it changes",
		Tags: ordering, Errors: []int{401, 403, 404, 422, 429, 503},
	}
	ownOrdersRoute = huma.Operation{
		OperationID: "list-own-orders", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders",
		Summary: "The caller's own orders in a sale", Tags: ordering, Errors: []int{401, 403, 404, 422, 429, 503},
	}

	allOrdersRoute = huma.Operation{
		OperationID: "list-orders", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders",
		Summary: "All orders in a sale", Tags: operating, Errors: []int{401, 403, 404, 422, 503},
	}
	salesRoute = huma.Operation{
		OperationID: "list-sales", Method: http.MethodGet, Path: "/v1/sales", Summary: "All sales", Tags: operating,
		Errors: []int{401, 403, 422, 503},
	}
	putSaleRoute = huma.Operation{
		OperationID: "put-sale", Method: http.MethodPut, Path: "/v1/sales/{sale}", Summary: "Define a sale, or change it",
		Tags: operating, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
	}
	verifyRoute = huma.Operation{
		OperationID: "verify-sale", Method: http.MethodGet, Path: "/v1/sales/{sale}/verify",
		Summary: "Check a sale's invariants", Tags: operating, Errors: []int{401, 403, 404, 503},
	}
	rulesRoute = huma.Operation{
		OperationID: "get-rules", Method: http.MethodGet, Path: "/v1/rules", Summary: "The rules in force", Tags: operating,
		Errors: []int{401, 403},
	}

	reloadRoute = huma.Operation{
		OperationID: "reload-rules", Method: http.MethodPost, Path: "/v1/rules/reload",
		Summary: "Put the rules file as it is now into force; after 422 the old rules stay", Tags: operating, Errors: []int{401, 403, 422},
	}

	placePattern, salePattern, orderPattern = echoPattern(placeRoute), echoPattern(saleRoute), echoPattern(orderRoute)

	health    = []string{"Health"}
	tagSales  = []string{"Sales"}
	ordering  = []string{"Orders"}
	operating = []string{"Operating"}
)

// echoPattern returns an operation's path in Echo's syntax.
func echoPattern(op huma.Operation) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(op.Path)
}

func switchRoute(verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb + "-sale", Method: http.MethodPost, Path: "/v1/sales/{sale}/" + verb, Summary: summary, Tags: operating,
		Errors: []int{401, 403, 404, 409, 503},
	}
}

// common registers the routes of both listeners. On the public one, reading is charged by the rules; on the internal one,
// reading and placing need a role.
func (a *API) common(docs huma.API, public bool, reading, placing huma.Middlewares) {
	huma.Register(docs, livezRoute, a.livez)
	huma.Register(docs, readyzRoute, a.readyz)
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

// own registers the routes of the public listener for buyers' own orders. The internal listener has others, which need a role.
func (a *API) own(docs huma.API) {
	list, cancel := ownOrdersRoute, cancelRoute
	list.Middlewares, cancel.Middlewares = huma.Middlewares{a.charged}, huma.Middlewares{a.charged}
	list.Parameters, cancel.Parameters = captchaParameter, captchaParameter
	huma.Register(docs, list, a.reader.OwnOrders)
	huma.Register(docs, cancel, a.changes.Cancel)
}

// charged is the middleware that charges an operation by the rules.
func (a *API) charged(ctx huma.Context, next func(huma.Context)) {
	_, cancel, err := a.Charge(ctx.Context(), 0)
	defer cancel()
	if err != nil {
		a.errors.Fail(humaecho.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// operators registers the routes of the internal listener only.
func (a *API) operators(docs huma.API) {
	register(a, docs, auth.ForReaders, allOrdersRoute, a.reader.AllOrders)
	register(a, docs, auth.ForReaders, eventsRoute, a.orderFeed.Events)
	register(a, docs, auth.ForServices, payRoute, ofOperators(a, payRoute, a.changes.Pay))
	register(a, docs, auth.ForServices, cancelRoute, ofOperators(a, cancelRoute, a.changes.Cancel))
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
	register(a, docs, auth.ForViewers, rulesRoute, a.rules)
	register(a, docs, auth.ForOperators, reloadRoute, a.reloadRules)
	register(a, docs, auth.ForViewers, bansRoute, a.listBans)
	register(a, docs, auth.ForOperators, putBanRoute, a.putBan)
	register(a, docs, auth.ForOperators, deleteBanRoute, a.deleteBan)
	register(a, docs, auth.ForViewers, banHistoryRoute, a.banHistory)
	if a.audit != nil {
		register(a, docs, auth.ForViewers, auditRoute, a.listAudit)
	}
	if a.semaphores != nil {
		a.permits(docs)
		a.reports(docs.OpenAPI())
	}
}

// register is huma.Register for routes that need a role.
func register[I, O any](a *API, docs huma.API, roles []auth.Role, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.Middlewares = huma.Middlewares{a.only(roles)}
	if len(roles) == 0 && op.Method != http.MethodGet {
		op.Middlewares = append(huma.Middlewares{a.auditRefused(op)}, op.Middlewares...)
		handler = audited(a, op, handler)
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
