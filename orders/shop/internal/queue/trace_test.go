package queue

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// A task costs nothing for traces without a tracer.
func TestNoTracerCostsNothing(t *testing.T) {
	e := &Enqueuer{Core: &core.Core{}, offers: make(chan Offered, 1)}
	ctx, batch := t.Context(), make([]Offered, 1)
	if allocated := testing.AllocsPerRun(100, func() {
		e.Offer(orders.Reservation{}, trace.SpanContextFromContext(ctx))
		batch[0] = <-e.offers
		if spans, headers := e.traceEnqueue(ctx, batch, "task", "queue"); spans != nil || headers != nil {
			t.Error(spans, headers)
		}
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
