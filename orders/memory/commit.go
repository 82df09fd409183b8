package memory

import (
	"context"
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Prove returns an error only of a fault.
func (s *Store) Prove(ctx context.Context) error {
	return s.write(ctx, "Prove", func(*state) error { return nil })
}

// Commit writes the batch in the order of the ids, as package postgres does.
func (s *Store) Commit(ctx context.Context, batch []orders.Reservation) ([]storage.Verdict, error) {
	return run(ctx, s, "Commit", func(st *state) ([]storage.Verdict, error) {
		verdicts := make([]storage.Verdict, len(batch))
		var todo []int // indices into batch
		for i := range batch {
			r := &batch[i]
			sale, there := st.sales.get(r.Sale)
			if !there || r.Epoch < sale.EpochFloor || r.Epoch > sale.Epoch {
				verdicts[i].Stale = true
				continue
			}
			if s.refuses(r) {
				return nil, CheckViolation
			}
			todo = append(todo, i)
		}
		slices.SortStableFunc(todo, func(a, b int) int { return compareIDs(batch[a].ID, batch[b].ID) })
		now := s.db.now()
		for _, i := range todo {
			verdicts[i] = st.commit(&batch[i], now)
		}
		return verdicts, nil
	})
}

// refuses reports whether a constraint refuses the row of an order.
func (s *Store) refuses(r *orders.Reservation) bool {
	return r.Quantity < 1 || slices.ContainsFunc(r.Units, func(u int) bool { return u < 1 }) || s.faults.Refuse != nil && s.faults.Refuse(r)
}

// commit writes one order of a sale that there is.
func (st *state) commit(r *orders.Reservation, now time.Time) storage.Verdict {
	if o, there := st.orders.get(r.ID); there {
		return storage.Verdict{Status: o.Status, Reason: o.Reason, Repeated: true}
	}
	o := order{buyerHash: r.BuyerHash, key: &r.KeyHash, Order: r.Accepted()}
	if r.KeyHash == "" && r.Reason != "" || r.Reason == orders.ReasonDuplicate {
		o.key = nil
	}
	if name, ok := o.identity(); ok {
		key := r.KeyHash // the row must not refer to what the caller may change
		o.key = &key
		if _, held := st.identities[name]; held {
			o.key, o.Reason = nil, orders.ReasonDuplicate
		}
	}
	if o.Reason != "" {
		o.Status = orders.StatusRejected
		st.putOrder(o)
		st.record(now, orders.Event{OrderID: o.ID, Status: o.Status, Reason: o.Reason})
		return storage.Verdict{Status: o.Status, Reason: o.Reason}
	}
	sale, _ := st.sales.get(r.Sale)
	stock := 0
	if it, there := sale.Item(r.Item); there {
		stock = it.Stock
	}
	var taken []int
	for _, u := range r.Units {
		if u > stock || st.owners.has(unit{r.Sale, r.Item, u}) {
			taken = append(taken, u)
		}
	}
	if len(taken) > 0 {
		return storage.Verdict{Taken: taken}
	}
	o.Status, o.Units, o.ConfirmedAt = orders.StatusConfirmed, slices.Clone(r.Units), now
	if sale.Hold > 0 {
		o.PayBefore = now.Add(sale.Hold)
	}
	st.putOrder(o)
	for _, u := range o.Units {
		st.owners.put(unit{o.Sale, o.Item, u}, o.ID)
	}
	st.record(now, orders.Event{OrderID: o.ID, Status: o.Status})
	return storage.Verdict{Status: o.Status}
}
