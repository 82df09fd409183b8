package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

type placeInput struct {
	Sale    string `path:"sale" doc:"Name of the sale"`
	Key     string `header:"Idempotency-Key" example:"2f1c6a0e-8f0b-4c6e-9a53-7d1f0b6c9e21" doc:"At most 255 printable characters. Makes a repetition of this request the same order. Required where a buyer may hold more than one unit, and without a user. Without a user it has 22 to 255 characters and is a secret, such as a random UUID: whoever knows it has the order"`
	Captcha string `header:"X-Captcha" doc:"Solution of the challenge that a refusal with captcha_required named; good for one request"`
	Body    struct {
		Item     string `json:"item" doc:"Name of the item"`
		Quantity int    `json:"quantity,omitempty" minimum:"1" maximum:"1000" default:"1"`
	} `nameHint:"OrderRequest"`
}

type placeOutput struct {
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After" doc:"Whole seconds; poll_after_ms says it finer"`
	Replayed   string `header:"Idempotency-Replayed" doc:"true: the order stood before this request"`
	Body       placedOrder
}

type placedOrder struct {
	_ struct{} `additionalProperties:"true"`

	OrderID     string        `json:"order_id" format:"uuid"`
	Status      orders.Status `json:"status" enum:"accepted,confirmed,paid,cancelled,expired,rejected"`
	Sale        string        `json:"sale"`
	Item        string        `json:"item"`
	Quantity    int           `json:"quantity"`
	PollAfterMS int64         `json:"poll_after_ms" doc:"When to ask for the order again; 0: it will not change any more"`
}

// place answers from this process where it can, else asks the rules, else
// reserves. What the process knows is not charged to users: a sold-out sale
// costs its crowd nothing.
func (a *API) place(ctx context.Context, in *placeInput) (*placeOutput, error) {
	r := requestOf(ctx)
	r.placing = true
	out, err := a.attempt(ctx, in)
	a.answered(err, "", func() admission.Request { return a.requestAt(r) })
	return out, err
}

func (a *API) attempt(ctx context.Context, in *placeInput) (*placeOutput, error) {
	r := requestOf(ctx)
	attempt, err := a.orders.Prepare(orders.Request{
		Sale: in.Sale, Item: in.Body.Item, Quantity: in.Body.Quantity,
		User: r.caller.User, Key: in.Key,
	})
	if err != nil {
		return nil, err
	}
	r.sale, r.item = in.Sale, in.Body.Item
	out, decided := attempt.Screen()
	if decided && !out.Admitted() && r.caller.User == "" { // the key may be a guess at somebody's, which costs what an order does
		_, cancel, err := a.charge(ctx, a.within)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	if !decided {
		if out, err = a.reserve(ctx, attempt); err != nil {
			return nil, err
		}
	}
	r.order = out.Order.ID
	if !out.Admitted() {
		return nil, refusal(&out)
	}
	o := &out.Order
	placed := &placeOutput{
		Location:   "/v1/orders/" + o.ID.String(),
		RetryAfter: "1",
		Body: placedOrder{
			OrderID: o.ID.String(), Status: o.Status, Sale: o.Sale, Item: o.Item, Quantity: o.Quantity, PollAfterMS: pollAfter(o),
		},
	}
	if out.Replayed {
		placed.Replayed = "true"
	}
	return placed, nil
}

// reserve asks the rules, and reserves: one deadline for both, and a hang-up ends neither.
func (a *API) reserve(ctx context.Context, attempt Attempt) (orders.Outcome, error) {
	if !a.capacity.enter() {
		return orders.Outcome{Reason: orders.ReasonAtCapacity, RetryAfter: time.Second}, nil
	}
	r := requestOf(ctx)
	r.stay = stay{a.capacity, time.Now()}
	counts := true
	defer func() { r.stay.leave(counts) }()
	rest, cancel, err := a.charge(ctx, a.within)
	defer cancel()
	if err != nil {
		_, refused := errors.AsType[*Problem](err)
		counts = !refused // perhaps from memory
		return orders.Outcome{}, err
	}
	return attempt.Reserve(rest)
}
