package shop_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// accept places orders of separate buyers, which stay uncommitted unless a worker runs.
func (in *installation) accept(p *process, sale, name string, count int) (ids []orders.ID) {
	in.t.Helper()
	for i := range count {
		out := in.buy(p, sale, name+"-"+strconv.Itoa(i))
		if !out.Admitted() { // a replay if the first response was lost
			in.t.Fatalf("%s %d: %+v", name, i, out)
		}
		ids = append(ids, out.Order.ID)
	}
	return ids
}

// loseTasks waits until count orders are queued, which happens after their responses, and deletes the tasks: only their process
// has the orders then.
func (in *installation) loseTasks(count int) {
	in.t.Helper()
	eventually(in.t, "the orders are queued", func() bool { return in.queued() == count })
	in.deleteTasks()
}

// outcomes waits until the orders are rows, and counts their results. An order is confirmed, or rejected because it came too
// late.
func (in *installation) outcomes(p *process, ids []orders.ID) (confirmed, late int) {
	in.t.Helper()
	for _, id := range ids {
		switch o := in.settled(p, id); {
		case o.Status == orders.StatusConfirmed && len(o.Units) == o.Quantity:
			confirmed++
		case o.Status == orders.StatusRejected && o.Reason == orders.ReasonRecoveredLate:
			late++
		default:
			in.t.Errorf("order %+v", o)
		}
	}
	return confirmed, late
}

// sellOut sends buyers until nothing is left, and returns their orders.
func (in *installation) sellOut(p *process, sale, name string) (ids []orders.ID) {
	in.t.Helper()
	for i := 0; ; i++ {
		out := in.buy(p, sale, name+"-"+strconv.Itoa(i))
		switch {
		case out.Reason == orders.ReasonSoldOut:
			return ids
		case !out.Admitted():
			in.t.Fatalf("%s %d: %+v", name, i, out)
		}
		ids = append(ids, out.Order.ID)
	}
}

// TestAnotherOneFinishesWhatALeaderBegan lets the leader die at each step.
func TestAnotherOneFinishesWhatALeaderBegan(t *testing.T) {
	t.Parallel()
	type death struct {
		call  string
		after bool
	}
	for _, d := range []death{
		{"raise epoch", false},
		{"raise epoch", true},
		{"commit", false},
		{"commit", true},
		{"end hand-over", false},
		{"end hand-over", true},
		{"holdings", false},
		{"holdings", true},
	} {
		name := "before " + d.call
		if d.after {
			name = "after " + d.call
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, "--appendfsync", "always") // so that a restart keeps what is committed from it
			in := installOn(t, server.URL())
			others := []*process{in.start(), in.start()}
			leader := in.start()
			sale := in.sale(leader, func(s *orders.Sale) { s.Items[0].Stock = 30 })
			var placed []orders.ID
			for i, p := range others {
				p.follows()
				placed = append(placed, in.accept(p, sale.ID, fmt.Sprint("early-", i), 4)...)
			}
			var letGo []func()
			died := make(chan struct{})
			die := sync.OnceFunc(func() { leader.store.fails(); close(died) })
			at := &leader.store.before
			if d.after {
				at = &leader.store.after
			}
			at.Store(new(hook(func(_ context.Context, call string) error {
				if call != d.call {
					return nil
				}
				die()
				return fmt.Errorf("%w: the leader dies", orders.ErrUnavailable)
			})))
			if d.call == "commit" { // of orders in the keys of a server that was only restarted
				for _, p := range others { // they remember the same orders, and may be faster
					_, commit := holds(&p.store.before, "commit")
					t.Cleanup(commit)
					letGo = append(letGo, commit)
				}
				server.Kill()
				server.Restart()
			} else {
				must(t, in.rdb.FlushAll(t.Context()).Err())
			}
			arrives(t, "the leader dies", died)
			for _, commit := range letGo {
				commit()
			}
			for _, p := range others {
				p.mayLead()
			}
			in.work(others[0])
			placed = append(placed, in.sellOut(others[1], sale.ID, "late")...)
			if confirmed, late := in.outcomes(others[0], placed); confirmed != 30 || late != 0 {
				t.Errorf("%d confirmed and %d too late of 30 units and %d orders", confirmed, late, len(placed))
			}
			in.balanced(others[0], sale.ID)
			in.everyKeyExpires()
		})
	}
}

// everyKeyExpires fails the test if keys of items have no expiry.
func (in *installation) everyKeyExpires() {
	in.t.Helper()
	keys, err := in.rdb.Keys(in.t.Context(), in.namespace+":{*").Result()
	must(in.t, err)
	for _, key := range keys {
		ttl, err := in.rdb.TTL(in.t.Context(), key).Result()
		must(in.t, err)
		if ttl == -1 {
			content, _ := in.rdb.HGetAll(in.t.Context(), key).Result()
			in.t.Errorf("key %s never expires: %v", key, content)
		}
	}
}
