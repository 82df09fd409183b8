package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
)

// Inspect looks for what inspection.Queries and inspection.EventQueries find.
func (s *Store) Inspect(ctx context.Context, sale string, late time.Duration) (inspection.Result, error) {
	return run(ctx, s, "Inspect", func(st *state) (inspection.Result, error) {
		in := inspector{state: st, sale: sale, events: make(map[orders.ID][]orders.Event), paid: make(map[orders.ID]int)}
		for _, e := range st.events {
			in.events[e.OrderID] = append(in.events[e.OrderID], e)
		}
		for _, p := range st.payments.all() {
			if p.Action == orders.ActionNone {
				in.paid[p.Order]++
			}
		}
		now := s.db.now()
		for _, o := range st.orders.all() {
			if o.Sale == sale {
				in.order(&o, now, now.Add(-late))
			}
		}
		in.missing()
		in.payments()
		for _, r := range st.returns.all() {
			if o, there := st.orders.get(r.ID); there && r.Sale == sale && o.Status.OwnsUnits() {
				in.breach("I10", "order %s is %s, and its units are on their way back", o.ID, o.Status)
			}
		}
		return in.result, nil
	})
}

// inspector inspects one sale.
type inspector struct {
	*state
	sale   string
	events map[orders.ID][]orders.Event
	paid   map[orders.ID]int // payments that count
	found  map[string]int    // breaches, by their kind
	result inspection.Result
}

// breach adds a breach, unless there are many of its kind.
func (in *inspector) breach(invariant, format string, args ...any) {
	if in.found == nil {
		in.found = make(map[string]int)
	}
	if in.found[format]++; in.found[format] <= inspection.MaxBreaches {
		in.result.Breaches = append(in.result.Breaches, inspection.Breach{Invariant: invariant, What: fmt.Sprintf(format, args...)})
	}
}

// order compares an order with its payments and events.
func (in *inspector) order(o *order, now, late time.Time) {
	in.result.Orders++
	if o.waits() && !o.PayBefore.After(now) {
		if o.PayBefore.After(late) {
			in.result.Expiring++
		} else {
			in.breach("I14", "order %s should have expired at %s", o.ID, o.PayBefore.Format(time.RFC3339))
		}
	}
	want := 0
	if o.Status == orders.StatusPaid {
		want = 1
	}
	if in.paid[o.ID] != want {
		in.breach("I11", "order %s is %s, and %d payments count for it", o.ID, o.Status, in.paid[o.ID])
	}
	var statuses []string
	ends := 0
	for _, e := range in.events[o.ID] {
		if e.Action == orders.ActionRefund {
			continue
		}
		statuses = append(statuses, string(e.Status))
		if e.Status == orders.StatusCancelled || e.Status == orders.StatusExpired {
			ends++
		}
	}
	path := []string{string(o.Status)}
	if o.Status != orders.StatusConfirmed && o.Status != orders.StatusRejected {
		path = []string{string(orders.StatusConfirmed), string(o.Status)}
	}
	had := strings.Join(statuses, ", ")
	if had == strings.Join(path, ", ") {
		return
	}
	if had == "" {
		had = "nothing"
	}
	invariant := "I9"
	if ends > 1 {
		invariant = "I10"
	}
	in.breach(invariant, "order %s is %s, and its events say %s", o.ID, o.Status, had)
}

// missing finds what refers to orders that do not exist.
func (in *inspector) missing() {
	seen := make(map[string]bool)
	missing := func(id orders.ID, format string) {
		if what := fmt.Sprintf(format, id); !in.orders.has(id) && !seen[what] && len(seen) < inspection.MaxBreaches {
			seen[what] = true
			in.result.Breaches = append(in.result.Breaches, inspection.Breach{Invariant: "I2", What: what, Missing: id.String()})
		}
	}
	for i := range in.state.events {
		missing(in.state.events[i].OrderID, "an event of order %s, which there is not")
	}
	for _, p := range in.state.payments.all() {
		missing(p.Order, "a payment of order %s, which there is not")
	}
	for _, r := range in.returns.all() {
		if r.Sale == in.sale {
			missing(r.ID, "units come back from order %s, which there is not")
		}
	}
}

// payments compares payments and events.
func (in *inspector) payments() {
	for _, p := range in.state.payments.all() {
		if o, _ := in.orders.get(p.Order); o.Sale != in.sale {
			continue
		}
		in.result.Captured++
		if p.Action == orders.ActionRefund {
			in.result.Refunds++
		}
		times := 0
		for _, e := range in.events[p.Order] {
			if e.Reference == p.Reference && e.Action == p.Action {
				times++
			}
		}
		if times != 1 {
			in.breach("I11", "payment %s of order %s is recorded, and %d times in the feed", p.Reference, p.Order, times)
		}
	}
	for i := range in.state.events {
		e := &in.state.events[i]
		if o, _ := in.orders.get(e.OrderID); o.Sale != in.sale || e.Action == "" {
			continue
		}
		if p, there := in.state.payments.get(e.Reference); !there || p.Order != e.OrderID || p.Action != e.Action {
			in.breach("I11", "payment %s of order %s is in the feed and not recorded", e.Reference, e.OrderID)
		}
	}
}
