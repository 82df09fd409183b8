package sales

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/request"
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
	Body struct {
		Reference string `json:"reference" minLength:"1" maxLength:"255" doc:"The payment provider's name for the capture: printable characters, not only blanks"`
		Outcome   string `json:"outcome" enum:"captured"`
	} `nameHint:"Capture"`
}

// AuditDetail returns what the audit log stores of the request.
func (in *payInput) AuditDetail() any { return in.Body }

type payOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Status orders.Status `json:"status" enum:"confirmed,paid,cancelled,expired,rejected" doc:"The order's"`
		Action orders.Action `json:"action" enum:"none,refund" doc:"refund: it did not wait for this payment, give the money back"`
	} `nameHint:"Payment"`
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
