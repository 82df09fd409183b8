// Package databases runs a test on each of the databases that the product supports.
package databases

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/sqlite"
)

var migrated = testenv.NewTemplate(func(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	return errors.Join(migrations.Postgres(ctx, db), db.Close())
})

// Postgres returns the URL of a migrated Postgres database for one test.
func Postgres(t testing.TB) string { return migrated.Copy(t) }

// Each runs test on Postgres and on SQLite, each with its own migrated database. open is the one of the two functions for that database.
func Each[T any](t *testing.T, inPostgres, inSQLite func(*sql.DB) T, test func(t *testing.T, db *sql.DB, open func(*sql.DB) T)) {
	for _, c := range []struct {
		driver string
		dsn    func(t *testing.T) string
		update func(context.Context, *sql.DB) error
		open   func(*sql.DB) T
	}{
		{"pgx", func(t *testing.T) string { return Postgres(t) }, migrations.CheckPostgres, inPostgres},
		{"sqlite", func(t *testing.T) string {
			return "file:" + filepath.Join(t.TempDir(), "test.db") + "?" + sqlite.Options
		}, migrations.SQLite, inSQLite},
	} {
		t.Run(c.driver, func(t *testing.T) {
			db, err := sql.Open(c.driver, c.dsn(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := c.update(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			test(t, db, c.open)
		})
	}
}
