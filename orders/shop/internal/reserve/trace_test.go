package reserve

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// A request costs nothing for traces without a tracer.
func TestNoTracerCostsNothing(t *testing.T) {
	rs := &Reserver{Core: &core.Core{}}
	a := &Attempt{reserver: rs}
	ctx := t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		_, span := a.trace(ctx, ModeNew)
		rs.endReserve(span, &orders.Outcome{Reason: orders.ReasonSoldOut}, orders.ErrUnavailable)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
