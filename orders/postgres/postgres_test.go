package postgres_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's driver, for the migrations

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (orders.Store, func(string)) {
		url := testenv.Postgres(t)
		db, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := migrations.Postgres(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return postgres.New(pool), func(buyer string) {
			if _, err := pool.Exec(t.Context(), `ALTER TABLE orders ADD CHECK (buyer <> '`+buyer+`')`); err != nil {
				t.Fatal(err)
			}
		}
	})
}
