package sqlite_test

import (
	"os"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (storage.Store, func(string)) {
		db := databases.OpenSQLite(t)
		return sqlite.New(db), func(buyer string) {
			if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.buyer = '`+buyer+`'
				BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
				t.Fatal(err)
			}
		}
	})
}
