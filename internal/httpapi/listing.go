package httpapi

import (
	"context"
	"encoding/base64"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/orders"
)

// Paging is the parameters of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// A page is the response of every list.
type page[T any] struct {
	_ struct{} `additionalProperties:"true"`

	Items      []T     `json:"items" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"null: this was the last page"`
}

type pageOutput[T any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         page[T]
}

// pageOf returns found as a page; if it has limit items, the next page begins after the last of them.
func pageOf[T, V any](found []T, limit int, view func(*T) V, id func(*T) []byte) *pageOutput[V] {
	out := &pageOutput[V]{CacheControl: "no-store", Body: page[V]{Items: make([]V, len(found))}}
	for i := range found {
		out.Body.Items[i] = view(&found[i])
	}
	if len(found) == limit {
		out.Body.NextCursor = cursor(id(&found[limit-1]))
	}
	return out
}

type ownOrdersInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
	Paging
}

func (a *API) ownOrders(ctx context.Context, in *ownOrdersInput) (*pageOutput[orderView], error) {
	user := requestOf(ctx).caller.User
	if user == "" {
		return nil, auth.ErrUnauthenticated // an address has no orders
	}
	return a.list(ctx, orders.Query{Sale: in.Sale, Viewer: orders.Viewer{User: user}}, in.Paging)
}

type allOrdersInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
	Paging
	Status orders.Status `query:"status" enum:"accepted,confirmed,paid,cancelled,expired,rejected"`
	User   string        `query:"user" maxLength:"255"`
}

func (a *API) allOrders(ctx context.Context, in *allOrdersInput) (*pageOutput[orderView], error) {
	return a.list(ctx, orders.Query{Sale: in.Sale, Viewer: orders.Viewer{All: true}, User: in.User, Status: in.Status}, in.Paging)
}

func (a *API) list(ctx context.Context, q orders.Query, in Paging) (*pageOutput[orderView], error) {
	var err error
	if q.After, err = afterOrder(in.Cursor); err != nil {
		return nil, err
	}
	q.Limit = in.Limit
	found, err := a.orders.Orders(ctx, q)
	if err != nil {
		return nil, err
	}
	view := func(o *orders.Order) orderView { return viewOrder(o, q.Viewer) }
	return pageOf(found, in.Limit, view, func(o *orders.Order) []byte { return o.ID[:] }), nil
}

func cursor(after []byte) *string {
	s := base64.RawURLEncoding.EncodeToString(after)
	return &s
}

func parseCursor(s string) ([]byte, error) {
	after, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, errCursor
	}
	return after, nil
}

func afterOrder(s string) (id orders.ID, err error) {
	if s == "" {
		return id, nil
	}
	after, err := parseCursor(s)
	if err != nil || len(after) != len(id) {
		return id, errCursor
	}
	return orders.ID(after), nil
}

// afterEvent decodes the ID of an event from a cursor. The database may be unable to compare other texts.
func afterEvent(s string) (id string, err error) {
	after, err := parseCursor(s)
	if err != nil || len(after) > 0 && !input.Visible(string(after), 128) {
		return "", errCursor
	}
	return string(after), nil
}

var errCursor = &orders.InvalidError{Location: "query.cursor", Message: "must be a next_cursor of this list"}
