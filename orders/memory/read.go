package memory

import (
	"context"
	"slices"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// find returns an order, or the accepted order that a dead letter stands for.
func (st *state) find(id orders.ID) (o orders.Order, there bool) {
	if row, ok := st.orders.get(id); ok {
		return row.shown(), true
	}
	d, there := st.letters.get(id)
	if there {
		o = d.Reservation.Accepted()
	}
	return o, there
}

// Committed finds orders and dead letters.
func (s *Store) Committed(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Order, error) {
	return run(ctx, s, "Committed", func(st *state) (map[orders.ID]orders.Order, error) {
		found := make(map[orders.ID]orders.Order, len(ids))
		for _, id := range ids {
			if o, there := st.find(id); there {
				found[id] = o
			}
		}
		return found, nil
	})
}

// Statuses finds orders and dead letters.
func (s *Store) Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
	return run(ctx, s, "Statuses", func(st *state) (map[orders.ID]orders.Status, error) {
		found := make(map[orders.ID]orders.Status, len(ids))
		for _, id := range ids {
			if o, there := st.find(id); there {
				found[id] = o.Status
			}
		}
		return found, nil
	})
}

// Orders merges orders and dead letters.
func (s *Store) Orders(ctx context.Context, f storage.Filter) ([]orders.Order, error) {
	return run(ctx, s, "Orders", func(st *state) (list []orders.Order, err error) {
		for id, o := range st.orders.from(f.After) {
			if len(list) == f.Limit {
				break
			}
			if id != f.After && selects(&f, o.Sale, o.buyerHash, o.Status) {
				list = append(list, o.shown())
			}
		}
		found := len(list)
		for id, d := range st.letters.from(f.After) {
			if len(list) == found+f.Limit {
				break
			}
			r := &d.Reservation
			if id != f.After && !st.orders.has(id) && selects(&f, r.Sale, r.BuyerHash, orders.StatusAccepted) {
				list = append(list, r.Accepted())
			}
		}
		slices.SortFunc(list, func(a, b orders.Order) int { return compareIDs(a.ID, b.ID) })
		return list[:min(f.Limit, len(list))], nil
	})
}

// Holdings calls fn after it has read everything.
func (s *Store) Holdings(ctx context.Context, sale string, fn func(storage.Holding) error) error {
	list, err := run(ctx, s, "Holdings", func(st *state) (list []storage.Holding, err error) {
		for _, o := range st.orders.all() {
			if o.Sale != sale || o.key == nil && !o.Status.OwnsUnits() {
				continue
			}
			h := storage.Holding{ID: o.ID, Item: o.Item, BuyerHash: o.buyerHash, KeyHash: o.key, Quantity: o.Quantity, Status: o.Status}
			if o.Status.OwnsUnits() {
				h.Units = slices.Clone(o.Units)
			}
			list = append(list, h)
		}
		for id, d := range st.letters.all() {
			if r := kept(&d.Reservation); r.Sale == sale && !st.orders.has(id) {
				list = append(list, storage.HoldingOf(&r))
			}
		}
		return list, nil
	})
	for _, h := range list {
		if err == nil {
			err = fn(h)
		}
	}
	return wrap("Holdings", err)
}

// Owners calls fn after it has read everything.
func (s *Store) Owners(ctx context.Context, sale string, items []string, fn func(item string, number int, owner orders.ID)) error {
	type owned struct {
		unit
		owner orders.ID
	}
	list, err := run(ctx, s, "Owners", func(st *state) (list []owned, err error) {
		for _, item := range items {
			for at, owner := range st.owners.from(unit{sale: sale, item: item}) {
				if at.sale != sale || at.item != item {
					break
				}
				list = append(list, owned{at, owner})
			}
		}
		return list, nil
	})
	for _, o := range list {
		fn(o.item, o.number, o.owner)
	}
	return err
}

// Latest returns the id of each order and when it was accepted.
func (s *Store) Latest(ctx context.Context, sale, item string, buyers []string) (map[string]orders.Order, error) {
	return run(ctx, s, "Latest", func(st *state) (map[string]orders.Order, error) {
		latest := make(map[string]orders.Order)
		for _, o := range st.orders.all() {
			if o.Sale != sale || o.Item != item || o.Status == orders.StatusRejected || !slices.Contains(buyers, o.buyerHash) {
				continue
			}
			if !o.AcceptedAt.Before(latest[o.buyerHash].AcceptedAt) {
				latest[o.buyerHash] = orders.Order{ID: o.ID, AcceptedAt: o.AcceptedAt}
			}
		}
		return latest, nil
	})
}

// Totals counts the orders of a sale.
func (s *Store) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	return run(ctx, s, "Totals", func(st *state) (orders.Totals, error) {
		t := orders.Totals{Orders: make(map[orders.Status]int), Items: make(map[string]orders.ItemTotals)}
		for _, o := range st.orders.all() {
			if o.Sale == sale {
				t.Add(o.Item, o.Status, 1, o.Quantity, o.AcceptedAt)
			}
		}
		for _, p := range st.payments.all() {
			if o, _ := st.orders.get(p.Order); o.Sale == sale && p.Action == orders.ActionRefund {
				t.Refunds++
			}
		}
		return t, nil
	})
}

// Unsettled looks at orders, returns and dead letters.
func (s *Store) Unsettled(ctx context.Context, sale, item string) (bool, error) {
	return run(ctx, s, "Unsettled", func(st *state) (bool, error) {
		for d := range st.unpaid.all() {
			if o, _ := st.orders.get(d.id); o.Sale == sale && o.Item == item {
				return true, nil
			}
		}
		for _, r := range st.returns.all() {
			if r.Sale == sale && r.Item == item {
				return true, nil
			}
		}
		for _, d := range st.letters.all() {
			if d.Reservation.Sale == sale && d.Reservation.Item == item {
				return true, nil
			}
		}
		return false, nil
	})
}

// selects reports whether a filter selects an order.
func selects(f *storage.Filter, sale, buyerHash string, status orders.Status) bool {
	return sale == f.Sale && (f.BuyerHash == "" || buyerHash == f.BuyerHash) && (f.Status == "" || status == f.Status)
}
