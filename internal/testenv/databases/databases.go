// Package databases runs a test on each of the databases that the product supports.
package databases

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
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

// migratedSQLite is the content of a migrated database: a migration takes 50 times as long as a copy.
var migratedSQLite = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "sqlite")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "migrated.db")
	db, err := sql.Open("sqlite", "file:"+file+"?"+sqlite.Options)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(migrations.SQLite(context.Background(), db), db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// SQLite returns the name, with options, of a migrated SQLite database for one test.
func SQLite(t testing.TB) (dsn string) {
	t.Helper()
	content, err := migratedSQLite()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + file + "?" + sqlite.Options
}

// OpenSQLite opens such a database until the test ends.
func OpenSQLite(t testing.TB) *sql.DB {
	t.Helper()
	return open(t, "sqlite", SQLite(t))
}

func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Each runs test on Postgres and on SQLite, each with its own migrated database. open is the one of the two functions for that database.
func Each[T any](t *testing.T, inPostgres, inSQLite func(*sql.DB) T, test func(t *testing.T, db *sql.DB, open func(*sql.DB) T)) {
	for _, c := range []struct {
		driver string
		dsn    func(testing.TB) string
		open   func(*sql.DB) T
	}{
		{"pgx", Postgres, inPostgres},
		{"sqlite", SQLite, inSQLite},
	} {
		t.Run(c.driver, func(t *testing.T) { test(t, open(t, c.driver, c.dsn(t)), c.open) })
	}
}
