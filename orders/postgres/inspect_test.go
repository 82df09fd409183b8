package postgres_test

import (
	"testing"

	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(t *testing.T) (storage.Store, func(string)) {
		pool := open(t)
		return postgres.New(pool), func(statement string) {
			if _, err := pool.Exec(t.Context(), `ALTER TABLE order_events DISABLE TRIGGER USER; `+statement); err != nil {
				t.Fatal(err)
			}
		}
	})
}
