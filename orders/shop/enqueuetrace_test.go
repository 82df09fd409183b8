package shop

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
)

// A task costs nothing for traces without a tracer.
func TestNoTracerCostsNothing2(t *testing.T) {
	e := &enqueuer{core: &core{}, offers: make(chan offered, 1)}
	ctx, batch := t.Context(), make([]offered, 1)
	if allocated := testing.AllocsPerRun(100, func() {
		e.offer(orders.Reservation{}, trace.SpanContextFromContext(ctx))
		batch[0] = <-e.offers
		if spans, headers := e.traceEnqueue(ctx, batch, "task", "queue"); spans != nil || headers != nil {
			t.Error(spans, headers)
		}
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
