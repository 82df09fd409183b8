package request

import (
	"context"
	"testing"
)

func TestAContextHasItsRequest(t *testing.T) {
	type value struct{}
	parent, cancel := context.WithCancel(context.WithValue(t.Context(), value{}, "of the parent"))
	r := &Info{ID: "1"}
	ctx, cancelChild := context.WithCancel(NewContext(parent, r))
	defer cancelChild()
	if from, ok := From(ctx); Of(ctx) != r || from != r || !ok || ctx.Value(value{}) != "of the parent" {
		t.Errorf("%p, %p and %v of %p", Of(ctx), from, ctx.Value(value{}), r)
	}
	if _, ok := From(parent); ok {
		t.Error("the parent has a request")
	}
	cancel()
	if <-ctx.Done(); ctx.Err() == nil {
		t.Error("it did not end with its parent")
	}
}
