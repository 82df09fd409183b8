package memory

import (
	"context"
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Differing compares all sales.
func (s *Store) Differing(ctx context.Context, known *storage.KnownSales) ([]string, error) {
	return run(ctx, s, "Differing", func(st *state) ([]string, error) {
		var stored []storage.SaleVersion
		for _, sale := range st.recent(s.db.now()) {
			stored = append(stored, storage.SaleVersion{Sale: sale.ID, Revision: sale.Revision, EpochToken: sale.EpochToken})
		}
		return known.Differing(stored), nil
	})
}

// Sales returns copies.
func (s *Store) Sales(ctx context.Context, names []string) ([]orders.Sale, error) {
	return run(ctx, s, "Sales", func(st *state) ([]orders.Sale, error) {
		named := make(map[string]bool, len(names))
		for _, name := range names {
			named[name] = true
		}
		var found []orders.Sale
		for _, sale := range st.recent(s.db.now()) {
			if named[sale.ID] {
				found = append(found, copied(sale))
			}
		}
		return found, nil
	})
}

// recent returns the sales that are still read, by name.
func (st *state) recent(now time.Time) (list []orders.Sale) {
	for _, sale := range st.sales.all() {
		if sale.EndsAt.After(storage.LongAgo(now)) {
			list = append(list, sale)
		}
	}
	return list
}

func copied(s orders.Sale) orders.Sale {
	s.Salt, s.Items = slices.Clone(s.Salt), slices.Clone(s.Items)
	return s
}

// PutSale amends the sale, which is an empty draft if it is new.
func (s *Store) PutSale(ctx context.Context, def orders.Sale) (orders.Sale, bool, []string, error) {
	type result struct {
		sale    orders.Sale
		created bool
		added   []string
	}
	put, err := run(ctx, s, "PutSale", func(st *state) (r result, err error) {
		def.StartsAt, def.EndsAt = moment(def.StartsAt), moment(def.EndsAt)
		before, there := st.sales.get(def.ID)
		if !there {
			before = orders.Sale{ID: def.ID, Switch: orders.SwitchDraft, Epoch: 1, EpochFloor: 1}
			def.Revision = 0
		}
		after, changed, err := before.Amend(def)
		if err != nil {
			return r, err
		}
		if !there {
			r.created, changed, after.Salt = true, true, s.db.random(16)
		}
		if !changed {
			return result{sale: copied(before)}, nil
		}
		for i := range after.Items {
			it := &after.Items[i]
			if i >= len(before.Items) {
				st.number++
				it.Number, it.HighestQuota, it.Room = st.number, 0, ""
				r.added = append(r.added, it.ID)
			}
			it.HighestQuota = max(it.HighestQuota, it.QuotaPerBuyer)
		}
		r.sale = copied(st.putSale(after))
		return r, nil
	})
	return put.sale, put.created, put.added, err
}

// putSale writes a sale, as its next revision.
func (st *state) putSale(sale orders.Sale) orders.Sale {
	st.revision++
	sale.Revision = st.revision
	st.sales.put(sale.ID, sale)
	return sale
}

// SetSwitch sets the switch. Closed is final.
func (s *Store) SetSwitch(ctx context.Context, sale string, to orders.Switch) error {
	return s.write(ctx, "SetSwitch", func(st *state) error {
		changed, there := st.sales.get(sale)
		switch {
		case !there:
			return orders.ErrUnknownSale
		case changed.Switch == to:
			return nil
		case changed.Switch == orders.SwitchClosed:
			return storage.SwitchFinal(sale)
		}
		changed.Switch = to
		st.putSale(changed)
		return nil
	})
}

// SetRoom sets the waiting room of an item.
func (s *Store) SetRoom(ctx context.Context, sale, item, from, to string) error {
	return s.write(ctx, "SetRoom", func(st *state) error {
		changed, there := st.sales.get(sale)
		if !there {
			return orders.ErrUnknownSale
		}
		changed.Items = slices.Clone(changed.Items)
		it, there := changed.Item(item)
		switch {
		case !there:
			return orders.ErrUnknownItem
		case it.Room != from && it.Room != to:
			return storage.OtherRoom(sale, item, it.Room)
		}
		it.Room = to
		st.putSale(changed)
		return nil
	})
}
