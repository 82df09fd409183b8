package postgres_test

import (
	"fmt"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestLookUpsKeepNoPlan: a session looks orders up by their key also in the first large sale, although it did so before, when there were few.
func TestLookUpsKeepNoPlan(t *testing.T) {
	t.Parallel()
	pool := databases.OneSession(t, "orders")
	s := postgres.New(pool)
	_ = reservation(t, s) // of a sale that is there
	const number = 20_000
	id := func(n int) orders.ID { return orders.ID{6: 0x80, 8: 0x80, 14: byte(n >> 8), 15: byte(n)} }
	add := func(first, last int) {
		t.Helper()
		_, err := pool.Exec(t.Context(), `INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, epoch, accepted_at, pay_before)
			SELECT ('00000000-0000-8000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'spring', 'hat', '', n, '', 1, ARRAY[n], 'confirmed', 1, now(), now() + interval '1 hour'
			FROM generate_series($1::integer, $2::integer) n`, first, last)
		must(t, err)
	}
	calls := 0
	look := func(n int) {
		t.Helper()
		calls++
		list := []orders.ID{id(n)}
		found, err := s.Committed(t.Context(), list)
		must(t, err)
		statuses, err := s.Statuses(t.Context(), list)
		must(t, err)
		if len(found) != 1 || len(statuses) != 1 {
			t.Fatalf("order %d: %v, %v", n, found, statuses)
		}
		_, err = s.Pay(t.Context(), map[orders.ID]string{id(n): fmt.Sprint("reference ", calls)})
		must(t, err)
		_, err = s.Cancel(t.Context(), list) // which it is not, because it is paid
		must(t, err)
		verdicts, err := s.Commit(t.Context(), []orders.Reservation{{
			ID: id(n), Epoch: 1, Sale: "spring", Item: "hat", BuyerHash: fmt.Sprint(n), Quantity: 1, Units: []int{n},
		}})
		if must(t, err); len(verdicts) != 1 || !verdicts[0].Repeated {
			t.Fatalf("order %d again: %+v", n, verdicts)
		}
	}
	add(1, 1)
	_, err := pool.Exec(t.Context(), `VACUUM orders`) // otherwise Postgres assumes ten pages
	must(t, err)
	for range 20 { // by then it keeps the plan of a prepared statement
		look(1)
	}
	add(2, number)
	before := databases.Scanned(t, pool, "orders")
	for n := range 20 {
		look(number - n)
	}
	if n := databases.Scanned(t, pool, "orders") - before; n > number/10 {
		t.Errorf("%d orders were read to look for 20", n)
	}
}
