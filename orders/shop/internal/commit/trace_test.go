package commit

import (
	"testing"

	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
)

// A commit costs nothing for traces without a tracer.
func TestNoTracerCostsNothing(t *testing.T) {
	w, c := &Worker{Core: &core.Core{}}, &Committer{Core: &core.Core{}}
	task, ctx := &tasks.Task{Type: queue.TaskType}, t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		ctx, span := w.traceHandle(ctx, task)
		core.EndSpan(span, nil)
		_, span = c.traceBatch(ctx, 1, nil)
		core.EndSpan(span, nil)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
