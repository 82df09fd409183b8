package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// fakeSales holds sales as shop.Service does.
type fakeSales []orders.SaleStatus

func (s *fakeSales) Sales(context.Context, string, int) ([]orders.SaleStatus, error) { return *s, nil }

func (s *fakeSales) PutSale(_ context.Context, d orders.Definition) (orders.SaleStatus, bool, error) {
	def, err := d.Sale()
	if err != nil {
		return orders.SaleStatus{}, false, err
	}
	*s = append(*s, orders.SaleStatus{Sale: def, State: orders.StateScheduled})
	return orders.SaleStatus{}, true, nil
}

func (s *fakeSales) SetSwitch(_ context.Context, sale string, to orders.Switch) (orders.SaleStatus, error) {
	for i := range *s {
		if (*s)[i].ID == sale && to == orders.SwitchOpen {
			(*s)[i].State = orders.StateOpen
		}
	}
	return orders.SaleStatus{}, nil
}

func TestSampleSale(t *testing.T) {
	var s fakeSales
	for i, step := range []struct {
		before func()
		want   string
		sales  int
	}{
		{func() {}, "demo", 1},
		{func() {}, "demo", 1},
		{func() { s[0].State = orders.StatePaused }, "demo", 1},
		{func() { s[0].State = orders.StateEnded }, "demo-2", 2},
		{func() {}, "demo-2", 2},
		{func() { s[1].State = orders.StateClosed }, "demo-3", 3},
	} {
		step.before()
		got, err := ensureSample(t.Context(), &s, time.Now())
		if err != nil || got != step.want || len(s) != step.sales {
			t.Fatalf("step %d: %q of %d sales, %v; want %q of %d", i, got, len(s), err, step.want, step.sales)
		}
		if s[len(s)-1].State == orders.StateScheduled {
			t.Fatalf("step %d: %s is not open", i, got)
		}
	}
}
