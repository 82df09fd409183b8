package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(t *testing.T) (orders.Store, func(string)) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "orders.db")+"?"+sqlite.Options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := migrations.SQLite(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		return sqlite.New(db), func(statement string) {
			if _, err := db.ExecContext(t.Context(), `DROP TRIGGER order_events_stay; DROP TRIGGER order_events_are_final; `+statement); err != nil {
				t.Fatal(err)
			}
		}
	})
}
