package httpapi

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/httpapi/audit"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/orders"
)

var (
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
		Description: "A change that shuts a sale while it is open (`starts_at` in the future, `ends_at` in the past), or that changes `requires_user` of a sale with orders, " +
			"is 409 `force_required` without `?force=true`. The hours of a sale that is a draft, not started, paused or over change without it.",
		Tags: tagOperating, MaxBodyBytes: maxSale + 1, Errors: []int{401, 403, 408, 409, 413, 415, 422, 503},
	}
	putItemRoute = huma.Operation{
		OperationID: "put-item", Method: http.MethodPut, Path: "/v1/sales/{sale}/items/{item}", Summary: "Add an item to a sale, or change it",
		Description: "The other items stay as they are. As for the whole sale, the stock only grows, and a setting that is left out gets its default.",
		Tags:        tagOperating, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}
	verifyRoute = huma.Operation{
		OperationID: "verify-sale", Method: http.MethodGet, Path: "/v1/sales/{sale}/verify",
		Summary: "Check a sale's invariants", Tags: tagOperating, Errors: []int{401, 403, 404, 503},
	}
	cancelRoute = huma.Operation{
		OperationID: "cancel-order", Method: http.MethodPost, Path: "/v1/orders/{id}/cancel",
		Summary: "Cancel an order that waits for its payment; again: the same answer", Tags: tagOrders, Errors: []int{401, 403, 404, 409, 429, 503},
	}
	payRoute = huma.Operation{
		OperationID: "pay-order", Method: http.MethodPost, Path: "/v1/orders/{id}/payment",
		Summary: "Record a payment that was captured; under the same reference again: the same answer", Tags: tagBackOffice,
		Description: "Repeat it after 503: it may not be recorded. That is the answer while the order is not committed yet, and for as long as it is " +
			"a dead letter, which is until an operator has had it replayed.",
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}
	eventsRoute = huma.Operation{
		OperationID: "order-events", Method: http.MethodGet, Path: "/v1/order-events",
		Summary: "Every change of every order, in one order that never changes; waits for the next one", Tags: tagBackOffice, Errors: []int{401, 403, 422, 503},
	}
	deadLettersRoute = huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/orders/dead",
		Summary: "Accepted orders that the database refuses to hold", Tags: tagOperating, Errors: []int{401, 403, 422, 503},
	}
	replayRoute = huma.Operation{
		OperationID: "replay-dead-letter", Method: http.MethodPost, Path: "/v1/orders/dead/{id}/replay",
		Summary: "Commit a dead letter after what made the database refuse it is gone; 409: it still refuses", Tags: tagOperating,
		Errors: []int{401, 403, 404, 409, 503},
	}

	rebuildRoute = huma.Operation{
		OperationID: "rebuild-sale", Method: http.MethodPost, Path: "/v1/sales/{sale}/rebuild",
		Summary: "Rebuild a sale in Redis from the database and what all processes remember; it takes no orders for a second or two",
		Tags:    tagOperating, Errors: []int{401, 403, 404, 409, 503},
	}

	placePattern, salePattern, orderPattern = echoPattern(placeRoute), echoPattern(saleRoute), echoPattern(orderRoute)

	tagSales      = []string{"Sales"}
	tagOrders     = []string{"Orders"}
	tagBackOffice = []string{"Back office"}
)

func switchRoute(verb, summary string) huma.Operation {
	return huma.Operation{
		OperationID: verb + "-sale", Method: http.MethodPost, Path: "/v1/sales/{sale}/" + verb, Summary: summary, Tags: tagOperating,
		Errors: []int{401, 403, 404, 409, 503},
	}
}

// registerBuyers registers the routes of sales and orders that both listeners have. On the public one, reading is charged by the rules; on
// the internal one, reading and placing need a role.
func (a *API) registerBuyers(docs huma.API, reading, placing huma.Middlewares, parameters []*huma.Param) {
	huma.Register(docs, shared[sales.SaleView](docs, with(saleRoute, reading, parameters)), a.reader.Sale)
	huma.Register(docs, with(placeRoute, append(placing, a.placer.FastPlace), nil), a.placer.Place)
	huma.Register(docs, with(orderRoute, reading, parameters), a.reader.Order)
}

// registerOwn registers the routes of the public listener for buyers' own orders. The internal listener has others, which need a role.
func (a *API) registerOwn(docs huma.API) {
	charged := huma.Middlewares{a.charger.Middleware}
	huma.Register(docs, with(ownOrdersRoute, charged, captchaParameter), a.reader.OwnOrders)
	huma.Register(docs, with(cancelRoute, charged, captchaParameter), a.changes.Cancel)
}

// registerSales registers the routes of sales and orders that only the internal listener has.
func (a *API) registerSales(docs huma.API) {
	register(a, docs, auth.ForReaders, allOrdersRoute, a.reader.AllOrders)
	register(a, docs, auth.ForReaders, eventsRoute, a.orderFeed.Events)
	register(a, docs, auth.ForServices, payRoute, audit.ByOperators(a.audit, payRoute, a.changes.Pay))
	register(a, docs, auth.ForServices, cancelRoute, audit.ByOperators(a.audit, cancelRoute, a.changes.Cancel))
	register(a, docs, auth.ForViewers, deadLettersRoute, a.letters.List)
	register(a, docs, auth.ForOperators, replayRoute, a.letters.Replay)
	register(a, docs, auth.ForViewers, salesRoute, a.saleAdmin.Sales)
	register(a, docs, auth.ForOperators, putSaleRoute, a.saleAdmin.PutSale)
	register(a, docs, auth.ForOperators, putItemRoute, a.saleAdmin.PutItem)
	for _, path := range []string{putSaleRoute.Path, putItemRoute.Path} {
		responses := docs.OpenAPI().Paths[path].Put.Responses
		responses["201"] = &huma.Response{Description: "Created", Content: responses["200"].Content}
	}
	register(a, docs, auth.ForOperators, switchRoute("open", "Publish or resume a sale; its hours still apply"), a.saleAdmin.SetSwitch(orders.SwitchOpen))
	register(a, docs, auth.ForOperators, switchRoute("pause", "Pause a sale"), a.saleAdmin.SetSwitch(orders.SwitchPaused))
	register(a, docs, auth.ForOperators, switchRoute("close", "End a sale for good"), a.saleAdmin.SetSwitch(orders.SwitchClosed))
	register(a, docs, auth.ForOperators, rebuildRoute, a.saleAdmin.Rebuild)
	register(a, docs, auth.ForViewers, verifyRoute, a.saleAdmin.Verify)
	docs.OpenAPI().Components.Schemas.Map()["Check"].AdditionalProperties = true // like all responses, it may gain fields
}

// reportWait is how long a report waits for a permit.
const reportWait = 10 * time.Second

// exported are the media types of exports.
var exported = []string{string(export.CSV), string(export.NDJSON)}

// exportText documents how a client chooses between them.
const exportText = "CSV is for spreadsheets: a text that one could take for a formula has an apostrophe before each sign at which that would begin, " +
	"so that a user `+4915…` becomes `'+4915…`. Programs send `Accept: application/x-ndjson`: a JSON object per line with the same fields, every text as it " +
	"is stored, and null for what is unknown."

// registerReports registers routes that stream, without Huma, which would buffer the whole response.
func (a *API) registerReports(described *huma.OpenAPI) {
	a.internal.GET("/v1/sales/:sale/orders.csv", a.export.Send, needs(auth.ForServices), lasting, a.permits.Limit(reports.Semaphore, reportWait))
	described.AddOperation(&huma.Operation{
		OperationID: "orders-csv", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders.csv", Summary: "All orders of a sale as CSV or NDJSON",
		Description: "Takes a permit of the semaphore `report`, and waits up to 10 s for one. An answer that is cut off is not whole. " + exportText, Tags: tagOperating,
		Parameters: []*huma.Param{{Name: "sale", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the sale"}},
		Responses:  refusals(content(exported...), 401, 403, 404, 503),
	})
}
