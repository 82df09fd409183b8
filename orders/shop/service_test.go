package shop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
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

// TestWaitReady: a service is ready a moment after Run began. A wait whose context ends before returns the reasons too.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	in := install(t)
	rdb, err := redisclient.Open(in.redisURL)
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	s, err := shop.NewService(rdb, postgres.New(in.pool), asynqueue.New(rdb), shop.Options{Namespace: in.namespace, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	var missing *orders.Condition
	if err := s.WaitReady(ended); !errors.Is(err, context.Canceled) || !errors.As(err, &missing) {
		t.Errorf("%v, want the end of the context, and the reasons", err)
	}
	stop := in.run(s.Run)
	t.Cleanup(stop)
	must(t, s.WaitReady(t.Context()))
	must(t, s.Ready(t.Context()))
}

func TestAProcessIsForAcceptingOnlyOrForCommittingOnly(t *testing.T) {
	t.Parallel()
	_, err := shop.NewService(nil, nil, nil, shop.Options{AcceptOnly: true, CommitOnly: true})
	if err == nil || !strings.Contains(err.Error(), "accepting only or for committing only") {
		t.Errorf("%v", err)
	}
}
