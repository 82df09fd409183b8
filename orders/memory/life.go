package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Capture changes the order only together with the record of the capture.
func (s *Store) Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	return run(ctx, s, "Capture", func(st *state) (orders.Payment, error) {
		o, there := st.orders.get(id)
		p, recorded := st.payments.get(reference)
		switch {
		case recorded && p.Order != id:
			return orders.Payment{}, storage.OtherOrders(reference)
		case !there:
			return orders.Payment{}, orders.ErrUnknownOrder
		case recorded:
			p.Status = o.Status
			return p, nil
		}
		return st.pay(o, reference, s.db.now()), nil
	})
}

// pay records a capture, and pays the order if it waits for that.
func (st *state) pay(o order, reference string, now time.Time) orders.Payment {
	p := orders.Payment{Order: o.ID, Reference: reference, Action: orders.ActionRefund}
	if o.waits() {
		p.Action, o.Status = orders.ActionNone, orders.StatusPaid
		st.putOrder(o)
	}
	p.Status = o.Status
	st.payments.put(reference, p)
	st.record(now, orders.Event{OrderID: o.ID, Status: o.Status, Action: p.Action, Reference: reference})
	return p
}

// Pay pays in the order of the references.
func (s *Store) Pay(ctx context.Context, references map[orders.ID]string) ([]orders.ID, error) {
	ids := make([]orders.ID, 0, len(references))
	for id := range references {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b orders.ID) int {
		return cmp.Or(strings.Compare(references[a], references[b]), compareIDs(a, b))
	})
	return run(ctx, s, "Pay", func(st *state) (paid []orders.ID, err error) {
		for _, id := range ids {
			if o, _ := st.orders.get(id); o.waits() && !st.payments.has(references[id]) && !s.locked(id) {
				st.pay(o, references[id], s.db.now())
				paid = append(paid, id)
			}
		}
		return paid, nil
	})
}

// locked reports whether another transaction has locked an order.
func (s *Store) locked(id orders.ID) bool { return s.faults.Locked != nil && s.faults.Locked(id) }

// Cancel ends the orders in the order that they are given in.
func (s *Store) Cancel(ctx context.Context, ids []orders.ID) ([]storage.Return, error) {
	return run(ctx, s, "Cancel", func(st *state) (ended []storage.Return, err error) {
		for _, id := range ids {
			if o, _ := st.orders.get(id); o.waits() && !s.locked(id) {
				ended = st.end(ended, o, orders.StatusCancelled, s.db.now())
			}
		}
		return ended, nil
	})
}

// Expire ends those first that are due first.
func (s *Store) Expire(ctx context.Context, limit int) ([]storage.Return, error) {
	return run(ctx, s, "Expire", func(st *state) (ended []storage.Return, err error) {
		now := s.db.now()
		var ids []orders.ID
		for d := range st.unpaid.all() {
			if len(ids) >= limit || d.at.After(now) {
				break
			}
			if !s.locked(d.id) {
				ids = append(ids, d.id)
			}
		}
		for _, id := range ids {
			o, _ := st.orders.get(id)
			ended = st.end(ended, o, orders.StatusExpired, now)
		}
		return ended, nil
	})
}

// end ends an order that waits for payment, and adds its return to ended.
func (st *state) end(ended []storage.Return, o order, to orders.Status, now time.Time) []storage.Return {
	sale, there := st.sales.get(o.Sale)
	if !there {
		return ended
	}
	r := storage.Return{
		ID: o.ID, Sale: o.Sale, Item: o.Item, Epoch: sale.Epoch, BuyerHash: o.buyerHash,
		WithoutKey: o.key == nil || *o.key == "", Quantity: o.Quantity, Units: o.Units,
	}
	for _, u := range o.Units {
		if at := (unit{o.Sale, o.Item, u}); st.owners.rows[at] == o.ID {
			st.owners.remove(at)
		}
	}
	if o.Status = to; r.WithoutKey {
		o.key = nil
	}
	st.putOrder(o)
	st.returns.add(r.ID, r)
	st.record(now, orders.Event{OrderID: o.ID, Status: to})
	r.Units, r.Status = slices.Clone(r.Units), to
	return append(ended, r)
}

// NextExpiry looks at the order that is due first.
func (s *Store) NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error) {
	return run(ctx, s, "NextExpiry", func(st *state) (time.Duration, error) {
		for d := range st.unpaid.all() {
			return min(max(d.at.Sub(s.db.now()), 0), most), nil
		}
		return most, nil
	})
}

// Returns shuffles the returns with Options.Rand.
func (s *Store) Returns(ctx context.Context, sale string, limit int) ([]storage.Return, error) {
	return run(ctx, s, "Returns", func(st *state) (list []storage.Return, err error) {
		for _, r := range st.returns.all() {
			if sale == "" || r.Sale == sale {
				r.Units = slices.Clone(r.Units)
				list = append(list, r)
			}
		}
		s.db.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list[:min(limit, len(list))], nil
	})
}

// Returned deletes completed returns.
func (s *Store) Returned(ctx context.Context, ids []orders.ID) error {
	return s.write(ctx, "Returned", func(st *state) error {
		for _, id := range ids {
			st.returns.remove(id)
		}
		return nil
	})
}

// Events adds to each event what its order has.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]orders.Event, error) {
	return run(ctx, s, "Events", func(st *state) (list []orders.Event, err error) {
		for _, e := range st.after(after, len(st.events)) {
			o, there := st.orders.get(e.OrderID)
			if !there {
				continue
			}
			if len(list) == limit {
				break
			}
			e.Sale, e.Item, e.Buyer, e.Quantity, e.Units = o.Sale, o.Item, o.Buyer, o.Quantity, slices.Clone(o.Units)
			list = append(list, e)
		}
		return list, nil
	})
}

// after returns at most limit events with larger numbers.
func (st *state) after(seq int64, limit int) []orders.Event {
	i, _ := slices.BinarySearchFunc(st.events, seq+1, func(e orders.Event, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return st.events[i:min(i+limit, len(st.events))]
}
