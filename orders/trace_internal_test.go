package orders

import (
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"
)

func TestNoTracerCostsNothing(t *testing.T) {
	s := &enqueuer{core: &core{opts: Options{}.withDefaults()}, offers: make(chan offered, 1)}
	a := &Attempt{reserver: &reserver{core: s.core}}
	task := asynq.NewTask(taskType, nil)
	ctx, batch := t.Context(), make([]offered, 1)
	if allocated := testing.AllocsPerRun(100, func() {
		ctx, span := a.trace(ctx, modeNew)
		s.offer(Reservation{}, trace.SpanContextFromContext(ctx))
		s.endReserve(span, &Outcome{Reason: ReasonSoldOut}, ErrUnavailable)
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
