package postgres_test

import (
	"testing"

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
