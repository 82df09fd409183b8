package sales

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// Feed is the handler for the feed of events.
type Feed struct {
	Orders  Events
	MayWait MayWait
}

// Events reads the feed, and waits for the next event if there is none.
type Events interface {
	Namer
	Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error)
}

// Routes is the route of the feed.
func (h *Feed) Routes() []route.Route {
	return []route.Route{route.Of(route.Route{
		Operation: huma.Operation{
			OperationID: "order-events", Method: http.MethodGet, Path: "/v1/order-events",
			Summary: "Every change of every order, in one order that never changes; waits for the next one", Tags: tagBackOffice,
			Errors: []int{401, 403, 422, 503},
		},
		Roles: auth.ForReaders,
	}, h.Events)}
}

type eventsInput struct {
	After  int64 `query:"after" minimum:"0" doc:"next_cursor of the answer before; 0: from the beginning"`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	WaitMS int64 `query:"wait_ms" minimum:"0" maximum:"30000" doc:"How long to wait for an event where there is none yet"`
}

// EventView is a change of an order in responses.
type EventView struct {
	_ struct{} `additionalProperties:"true"`

	Seq       int64         `json:"seq" doc:"Grows from event to event, with gaps"`
	At        time.Time     `json:"at"`
	OrderID   string        `json:"order_id" format:"uuid"`
	Sale      string        `json:"sale"`
	Item      string        `json:"item"`
	User      string        `json:"user,omitempty" doc:"The buyer, where one was named"`
	Quantity  int           `json:"quantity"`
	Units     []int         `json:"units"`
	Status    orders.Status `json:"status" enum:"confirmed,paid,cancelled,expired,rejected" doc:"What the order became, or with a refund stayed"`
	Reason    orders.Reason `json:"reason,omitempty" doc:"Why it was rejected"`
	Action    orders.Action `json:"action,omitempty" enum:"none,refund" doc:"Of a payment"`
	Reference string        `json:"reference,omitempty" doc:"Of a payment"`
}

type eventsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Items      []EventView `json:"items"`
		NextCursor string      `json:"next_cursor" doc:"What to send as after next time"`
	} `nameHint:"OrderEvents"`
}

// Events returns a part of the feed. The feed has no last page: a client that has read all of it asks again with its last
// cursor.
func (h *Feed) Events(ctx context.Context, in *eventsInput) (*eventsOutput, error) {
	events, err := h.events(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &eventsOutput{CacheControl: "no-store"}
	out.Body.Items = make([]EventView, len(events))
	last := in.After
	for i := range events {
		e := &events[i]
		out.Body.Items[i] = EventView{
			Seq: e.Seq, At: response.Instant(e.At), OrderID: shownTo(ctx, h.Orders, e.OrderID, e.Buyer), Sale: e.Sale, Item: e.Item, User: e.Buyer,
			Quantity: e.Quantity,
			Units:    e.Units, Status: e.Status, Reason: e.Reason, Action: e.Action, Reference: e.Reference,
		}
		if e.Units == nil {
			out.Body.Items[i].Units = []int{}
		}
		last = e.Seq
	}
	out.Body.NextCursor = strconv.FormatInt(last, 10)
	return out, nil
}

// events waits for the next one if it is asked to and may.
func (h *Feed) events(ctx context.Context, in *eventsInput) ([]orders.Event, error) {
	if wait := time.Duration(in.WaitMS) * time.Millisecond; wait > 0 {
		if waiting, end, ok := h.MayWait(ctx); ok {
			defer end()
			list, err := h.Orders.Events(waiting, in.After, in.Limit, wait)
			return list, cmp.Or(request.Of(ctx).StillAllowed(), err)
		}
	}
	return h.Orders.Events(ctx, in.After, in.Limit, 0)
}
