package shop

import (
	"testing"

	"github.com/tidegate/tidegate/orders/internal/tasks"
)

// A commit costs nothing for traces without a tracer.
func TestNoTracerCostsNothing3(t *testing.T) {
	w, c := &worker{core: &core{}}, &committer{core: &core{}}
	task, ctx := &tasks.Task{Type: taskType}, t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		ctx, span := w.traceHandle(ctx, task)
		endSpan(span, nil)
		_, span = c.traceBatch(ctx, 1, nil)
		endSpan(span, nil)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
