package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(t *testing.T) (storage.Store, func(storetest.Damage)) {
		pool := open(t)
		return postgres.New(pool), func(d storetest.Damage) {
			if _, err := pool.Exec(t.Context(), `ALTER TABLE order_events DISABLE TRIGGER USER; `+d.SQL); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestEventsAreNotComparedWithEachOrder: before Postgres has statistics of a new sale, it expects a handful of rows, and joins by comparing
// each with each.
func TestEventsAreNotComparedWithEachOrder(t *testing.T) {
	pool := open(t)
	for _, sql := range []string{
		`ALTER TABLE orders SET (autovacuum_enabled = off)`, `ALTER TABLE order_events SET (autovacuum_enabled = off)`,
		`INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, epoch, accepted_at)
		 SELECT ('00000000-0000-8000-8000-' || lpad(n::text, 12, '0'))::uuid, 'spring', 'hat', '', n, '', 1, ARRAY[n], 'confirmed', 1, now()
		 FROM generate_series(1, 5000) n`,
		`INSERT INTO order_events (order_id, status) SELECT order_id, status FROM orders`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		must(t, err)
	}
	first, last := orders.ID{6: 0x80, 8: 0x80}, orders.ID{6: 0x80, 8: 0x80, 10: 0xff}
	for _, query := range []string{inspection.EventQueries[0], inspection.EventQueries[2]} {
		rows, err := pool.Query(t.Context(), "EXPLAIN "+query, "spring", 10, [16]byte(first), [16]byte(last))
		must(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		if text := strings.Join(plan, "\n"); strings.Contains(text, "Nested Loop") || !strings.Contains(text, "Append") {
			t.Errorf("%s\n%s", query, text)
		}
	}
}
