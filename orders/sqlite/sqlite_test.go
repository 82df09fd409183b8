package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (orders.Store, func(string)) {
		db := open(t)
		return sqlite.New(db), func(buyer string) {
			if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.buyer = '`+buyer+`'
				BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// open creates a database with the schema.
func open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "orders.db")+"?"+sqlite.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := migrations.SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}
