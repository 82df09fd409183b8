package sales

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// changeWithin bounds a change of an order, which continues when its caller hangs up. It includes the wait for an order that is
// not committed yet.
const changeWithin = 5 * time.Second

// Changes are the handlers that change orders.
type Changes struct{ Orders Changer }

// A Changer changes orders.
type Changer interface {
	Namer
	Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error)
	Pay(ctx context.Context, id orders.ID, reference string) (orders.Payment, error)
}

// Routes are the routes that change orders.
func (h *Changes) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "cancel-order", Method: http.MethodPost, Path: OrderPath + "/cancel",
				Summary: "Cancel an order that waits for its payment; again: the same answer", Tags: tagOrders,
				Errors: []int{401, 403, 404, 409, 429, 503},
			},
			Public: route.Charged, Roles: auth.ForServices, AuditOperator: true,
		}, h.Cancel),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "pay-order", Method: http.MethodPost, Path: OrderPath + "/payment",
				Summary: "Record a payment that was captured; under the same reference again: the same answer", Tags: tagBackOffice,
				Description: "Repeat it after 503: it may not be recorded. That is the answer while the order is not committed yet, and for as " +
					"long as it is a dead letter, which is until an operator has had it replayed.",
				MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
			},
			Roles: auth.ForServices, AuditOperator: true,
		}, h.Pay),
	}
}

type cancelInput struct {
	ID string `path:"id" doc:"Id of the order"`
}

func (h *Changes) Cancel(ctx context.Context, in *cancelInput) (*orderOutput, error) {
	id, err := orderID(ctx, h.Orders, in.ID)
	if err != nil {
		return nil, err
	}
	viewer := request.Of(ctx).Viewer()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), changeWithin)
	defer done()
	o, err := h.Orders.Cancel(ctx, id, viewer)
	record(ctx, h.Orders, &o)
	if err != nil {
		return nil, err
	}
	return &orderOutput{CacheControl: "no-store", Body: viewOrder(ctx, h.Orders, &o, viewer)}, nil
}

type payInput struct {
	ID   string `path:"id" doc:"Id of the order"`
	Body Capture
}

// Capture is a payment as its provider names it.
type Capture struct {
	Reference string `json:"reference" minLength:"1" maxLength:"255" doc:"The payment provider's name for the capture: printable characters, not only blanks"`
	Outcome   string `json:"outcome" enum:"captured"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *payInput) AuditDetail() any { return in.Body }

type payOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         Payment
}

// Payment is what became of a payment.
type Payment struct {
	_ struct{} `additionalProperties:"true"`

	Status orders.Status `json:"status" enum:"confirmed,paid,cancelled,expired,rejected" doc:"The order's"`
	Action orders.Action `json:"action" enum:"none,refund" doc:"refund: it did not wait for this payment, give the money back"`
}

func (h *Changes) Pay(ctx context.Context, in *payInput) (*payOutput, error) {
	id, err := orderID(ctx, h.Orders, in.ID)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), changeWithin)
	defer done()
	p, err := h.Orders.Pay(ctx, id, in.Body.Reference)
	if err != nil {
		return nil, err
	}
	out := &payOutput{CacheControl: "no-store"}
	out.Body.Status, out.Body.Action = p.Status, p.Action
	return out, nil
}
