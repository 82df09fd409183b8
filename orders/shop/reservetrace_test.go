package shop

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
)

// A request costs nothing for traces without a tracer.
func TestNoTracerCostsNothing(t *testing.T) {
	rs := &reserver{core: &core{}}
	a := &Attempt{reserver: rs}
	ctx := t.Context()
	if allocated := testing.AllocsPerRun(100, func() {
		_, span := a.trace(ctx, modeNew)
		rs.endReserve(span, &orders.Outcome{Reason: orders.ReasonSoldOut}, orders.ErrUnavailable)
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
