package orders

import (
	"testing"

	"github.com/hibiken/asynq"
)

func TestNoTracerCostsNothing(t *testing.T) {
	s := &Service{opts: Options{}.withDefaults(), enqueueing: make(chan offered, 1)}
	a := &Attempt{s: s}
	task := asynq.NewTask(taskType, nil)
	ctx := t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		ctx, span := a.trace(ctx, asBuyer)
		s.offer(ctx, Reservation{})
		endReserve(span, &Outcome{Reason: ReasonSoldOut}, ErrUnavailable)
		ctx, span, headers := s.traceEnqueue(ctx, <-s.enqueueing, "queue")
		endSpan(span, nil)
		if headers != nil {
			t.Error(headers)
		}
		ctx, span = s.traceHandle(ctx, task)
		endSpan(span, nil)
		_, span = s.traceBatch(ctx, 1, nil)
		endSpan(span, nil)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
