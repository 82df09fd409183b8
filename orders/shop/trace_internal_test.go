package shop

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/tasks"
)

func TestNoTracerCostsNothing(t *testing.T) {
	s := &enqueuer{core: &core{opts: Options{}.withDefaults()}, offers: make(chan offered, 1)}
	a := &Attempt{reserver: &reserver{core: s.core}}
	task := &tasks.Task{Type: taskType}
	ctx, batch := t.Context(), make([]offered, 1)
	if allocated := testing.AllocsPerRun(100, func() {
		ctx, span := a.trace(ctx, modeNew)
		s.offer(orders.Reservation{}, trace.SpanContextFromContext(ctx))
		s.endReserve(span, &orders.Outcome{Reason: orders.ReasonSoldOut}, orders.ErrUnavailable)
		batch[0] = <-s.offers
		if spans, headers := s.traceEnqueue(ctx, batch, "task", "queue"); spans != nil || headers != nil {
			t.Error(spans, headers)
		}
		ctx, span = s.traceHandle(ctx, task)
		endSpan(span, nil)
		_, span = s.traceBatch(ctx, 1, nil)
		endSpan(span, nil)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
