package memory

import (
	"context"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// AddDeadLetter keeps a reservation as a dead letter, once.
func (s *Store) AddDeadLetter(ctx context.Context, r orders.Reservation, reason string) error {
	return s.write(ctx, "AddDeadLetter", func(st *state) error {
		st.letters.add(r.ID, orders.DeadLetter{Reservation: kept(&r), Reason: reason, At: s.db.now()})
		return nil
	})
}

// DeadLetters lists dead letters by id.
func (s *Store) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	return run(ctx, s, "DeadLetters", func(st *state) (list []orders.DeadLetter, err error) {
		for id, d := range st.letters.from(after) {
			if len(list) == limit {
				break
			}
			if o, there := st.orders.get(id); id != after && (!there || o.Status == orders.StatusRejected) {
				d.Reservation = kept(&d.Reservation)
				list = append(list, d)
			}
		}
		return list, nil
	})
}

// DeadLetter returns one, even if its order is stored by now.
func (s *Store) DeadLetter(ctx context.Context, id orders.ID) (orders.DeadLetter, error) {
	return run(ctx, s, "DeadLetter", func(st *state) (orders.DeadLetter, error) {
		d, there := st.letters.get(id)
		if !there {
			return d, orders.ErrUnknownOrder
		}
		d.Reservation = kept(&d.Reservation)
		return d, nil
	})
}

// DeleteDeadLetter deletes a dead letter.
func (s *Store) DeleteDeadLetter(ctx context.Context, id orders.ID, back []storage.Return) error {
	return s.write(ctx, "DeleteDeadLetter", func(st *state) error {
		for _, r := range back {
			if sale, there := st.sales.get(r.Sale); there {
				r.Epoch, r.Status, r.Units = sale.Epoch, "", append([]int(nil), r.Units...)
				st.returns.add(r.ID, r)
			}
		}
		st.letters.remove(id)
		return nil
	})
}
