package sqlite_test

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(t *testing.T) (orders.Store, func(string)) {
		db := open(t)
		return sqlite.New(db), func(statement string) {
			if _, err := db.ExecContext(t.Context(), `DROP TRIGGER order_events_stay; DROP TRIGGER order_events_are_final; `+statement); err != nil {
				t.Fatal(err)
			}
		}
	})
}
