package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestLookUpsKeepNoPlan: a session that looked orders up when there were few does not read all orders later.
func TestLookUpsKeepNoPlan(t *testing.T) {
	t.Parallel()
	tables := []string{"orders", "order_units", "order_events"}
	databases.LooksUpFew(t, tables, func(pool *pgxpool.Pool) (add func(first, last int), look func(n int)) {
		s := postgres.New(pool)
		reservation(t, s) // creates the sale
		add = func(first, last int) {
			_, err := pool.Exec(t.Context(), `
				WITH added AS (
					INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, epoch, accepted_at, pay_before)
					SELECT ('00000000-0000-8000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'spring', 'hat', '', n, '', 1, ARRAY[n], 'confirmed', 1,
						now(), now() + interval '1 hour'
					FROM generate_series($1::integer, $2::integer) n RETURNING *
				), events AS (
					INSERT INTO order_events (order_id, status) SELECT order_id, status FROM added
				)
				INSERT INTO order_units (sale, item, unit, order_id) SELECT sale, item, units[1], order_id FROM added`, first, last)
			must(t, err)
		}
		return add, func(n int) {
			id := orders.ID{6: 0x80, 8: 0x80, 14: byte(n >> 8), 15: byte(n)}
			list := []orders.ID{id}
			found, err := s.Committed(t.Context(), list)
			must(t, err)
			statuses, err := s.Statuses(t.Context(), list)
			must(t, err)
			verdicts, err := s.Commit(t.Context(), []orders.Reservation{{
				ID: id, Epoch: 1, Sale: "spring", Item: "hat", BuyerHash: fmt.Sprint(n), Quantity: 1, Units: []int{n},
			}})
			must(t, err)
			expired, err := s.Expire(t.Context(), 10)
			must(t, err)
			_, err = s.NextExpiry(t.Context(), time.Second)
			must(t, err)
			if len(found) != 1 || len(statuses) != 1 || !verdicts[0].Repeated || len(expired) != 0 {
				t.Fatalf("order %d: %v, %v, %v, %v", n, found, statuses, verdicts, expired)
			}
			latest, err := s.Latest(t.Context(), "spring", "hat", []string{fmt.Sprint(n)})
			must(t, err)
			listed, err := s.Orders(t.Context(), storage.Filter{Sale: "spring", After: id, Limit: 1})
			must(t, err)
			if latest[fmt.Sprint(n)].ID != id || len(listed) > 1 {
				t.Fatalf("order %d: %v, %v", n, latest, listed)
			}
			var changed int
			switch n % 3 {
			case 0:
				paid, err := s.Pay(t.Context(), map[orders.ID]string{id: fmt.Sprint("reference ", n)})
				must(t, err)
				changed = len(paid)
			case 1:
				_, err := s.Capture(t.Context(), id, fmt.Sprint("reference ", n))
				must(t, err)
				_, err = s.Capture(t.Context(), id, fmt.Sprint("reference ", n)) // again
				must(t, err)
				changed = 1
			case 2:
				returns, err := s.Cancel(t.Context(), list)
				must(t, err)
				changed = len(returns)
			}
			newest, _, err := s.Newest(t.Context(), storage.LastEvent{Seq: 1, Order: id})
			must(t, err)
			unsettled, err := s.Unsettled(t.Context(), "spring", "hat")
			must(t, err)
			events, err := s.Events(t.Context(), 0, 5)
			must(t, err)
			if changed != 1 || newest.Seq == 0 || !unsettled || len(events) == 0 {
				t.Fatalf("order %d: %d changed, %d events", n, changed, len(events))
			}
		}
	})
}
