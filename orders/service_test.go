package orders_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestACrowdBuysAllAndNoMore(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p)

	var ids []orders.ID
	for i := range 30 {
		out := in.order(p, sale.ID, fmt.Sprintf("user-%d", i), "", 1)
		switch {
		case i < 10 && !out.Admitted():
			t.Fatalf("buyer %d: %s", i, out.Reason)
		case i >= 10 && out.Reason != orders.ReasonSoldOut:
			t.Fatalf("buyer %d: %q, want sold_out", i, out.Reason)
		}
		if out.Admitted() {
			ids = append(ids, out.Order.ID)
		}
	}
	units := make(map[int]bool)
	for _, id := range ids {
		o := in.settled(p, id)
		if o.Status != orders.StatusConfirmed || len(o.Units) != 1 || units[o.Units[0]] || o.PayBefore.IsZero() {
			t.Fatalf("order %+v, units so far %v", o, units)
		}
		units[o.Units[0]] = true
	}
	eventually(t, "queues are empty", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestReadyNamesAllThatIsAway: the error names both servers, so that an operator sees both.
func TestReadyNamesAllThatIsAway(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	p.store.before.Store(new(hook(func(_ context.Context, call string) error {
		if call == "ping" {
			return errors.New("away")
		}
		return nil
	})))
	if err := p.Ready(t.Context()); err == nil || err.Error() != "database: away" {
		t.Errorf("%v", err)
	}
	must(t, p.rdb.Close())
	if err := p.Ready(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "redis: ") || !strings.Contains(err.Error(), "\ndatabase: away") {
		t.Errorf("%v", err)
	}
}
