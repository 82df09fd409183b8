package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

// changeWithin bounds a change of an order, which continues when its caller hangs up. It includes the wait for an order that is
// not committed yet.
const changeWithin = 5 * time.Second

var (
	cancelRoute = huma.Operation{
		OperationID: "cancel-order", Method: http.MethodPost, Path: "/v1/orders/{id}/cancel",
		Summary: "Cancel an order that waits for its payment; again: the same answer", Tags: ordering, Errors: []int{401, 403, 404, 409, 429, 503},
	}
	payRoute = huma.Operation{
		OperationID: "pay-order", Method: http.MethodPost, Path: "/v1/orders/{id}/payment",
		Summary: "Record a payment that was captured; under the same reference again: the same answer", Tags: backOffice,
		Description: "Repeat it after 503: it may not be recorded. That is the answer while the order is not committed yet, and for as long as it is " +
			"a dead letter, which is until an operator has had it replayed.",
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}

	backOffice = []string{"Back office"}
)

type cancelInput struct {
	ID string `path:"id" doc:"Id of the order"`
}

func (a *API) cancel(ctx context.Context, in *cancelInput) (*orderOutput, error) {
	id, err := request.OrderID(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	viewer := request.Of(ctx).Viewer()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), changeWithin)
	defer done()
	o, err := a.orders.Cancel(ctx, id, viewer)
	if err != nil {
		return nil, err
	}
	return &orderOutput{CacheControl: "no-store", Body: viewOrder(&o, viewer)}, nil
}

type payInput struct {
	ID   string `path:"id" doc:"Id of the order"`
	Body struct {
		Reference string `json:"reference" doc:"The payment provider's name for the capture: at most 255 printable characters, not only blanks"`
		Outcome   string `json:"outcome" enum:"captured"`
	} `nameHint:"Capture"`
}

type payOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Status orders.Status `json:"status" enum:"confirmed,paid,cancelled,expired,rejected" doc:"The order's"`
		Action orders.Action `json:"action" enum:"none,refund" doc:"refund: it did not wait for this payment, give the money back"`
	} `nameHint:"Payment"`
}

func (a *API) pay(ctx context.Context, in *payInput) (*payOutput, error) {
	id, err := request.OrderID(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), changeWithin)
	defer done()
	p, err := a.orders.Pay(ctx, id, in.Body.Reference)
	if err != nil {
		return nil, err
	}
	out := &payOutput{CacheControl: "no-store"}
	out.Body.Status, out.Body.Action = p.Status, p.Action
	return out, nil
}
