package migrations

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"

	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// dialect is one database that the schema exists for.
type dialect struct {
	name    string
	goose   goose.Dialect
	dsn     func(t *testing.T) string
	driver  string
	up      func(context.Context, *sql.DB) error
	check   func(context.Context, *sql.DB) error
	columns string // table, column

	description description
	golden      *string
}

var dialects = []dialect{
	{
		name: "postgres", goose: goose.DialectPostgres, driver: "pgx", up: Postgres, check: CheckPostgres,
		dsn: func(t *testing.T) string { return testenv.Postgres(t) },
		columns: `SELECT table_name, column_name FROM information_schema.columns
			WHERE table_schema = 'public' AND table_name <> 'tidegate_versions'`,
		description: describePostgres, golden: &postgresSchema,
	},
	{
		name: "sqlite", goose: goose.DialectSQLite3, driver: "sqlite", up: SQLite, check: CheckSQLite,
		dsn: func(t *testing.T) string { return filepath.Join(t.TempDir(), "orders.db") },
		columns: `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name <> 'tidegate_versions' AND m.name NOT LIKE 'sqlite%'`,
		description: describeSQLite, golden: &sqliteSchema,
	},
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// tables is each table with its columns in alphabetical order.
func tables(t *testing.T, db *sql.DB, query string) map[string][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		found[table] = append(found[table], column)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, columns := range found {
		slices.Sort(columns)
	}
	return found
}

func TestUpAndDown(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))

			err := d.check(t.Context(), db)
			if !errors.Is(err, ErrOutdated) || !strings.Contains(err.Error(), "at version 0") {
				t.Fatalf("check of an empty database: %v, want ErrOutdated with the version", err)
			}
			if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM tidegate_versions"); err == nil {
				t.Fatal("the check created a table")
			}

			for range 2 {
				if err := d.up(t.Context(), db); err != nil {
					t.Fatal(err)
				}
				if err := d.check(t.Context(), db); err != nil {
					t.Fatal(err)
				}
			}
			if got := tables(t, db, d.columns); len(got) == 0 {
				t.Fatal("no tables")
			}

			p, err := provider(d.goose, db)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.DownTo(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got := tables(t, db, d.columns); len(got) != 0 {
				t.Fatalf("left after down: %v", slices.Collect(maps.Keys(got)))
			}
			if err := d.check(t.Context(), db); !errors.Is(err, ErrOutdated) {
				t.Fatalf("check after down: %v, want ErrOutdated", err)
			}
			if err := d.up(t.Context(), db); err != nil {
				t.Fatalf("up after down: %v", err)
			}
		})
	}
}

// While a release is rolled out, or after one is rolled back, a program meets a schema from its future.
func TestNewerSchemaIsAccepted(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))
			if err := d.up(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(),
				"INSERT INTO tidegate_versions (version_id, is_applied) VALUES (9999, true)"); err != nil {
				t.Fatal(err)
			}
			if err := d.check(t.Context(), db); err != nil {
				t.Errorf("check: %v", err)
			}
			if err := d.up(t.Context(), db); err != nil {
				t.Errorf("up: %v", err)
			}
		})
	}
}

// An application with goose and a table of the same name is not ours, and its versions say nothing.
func TestVersionsOfAnotherApplication(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))
			for _, statement := range []string{
				"CREATE TABLE goose_db_version (id integer PRIMARY KEY, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp)",
				"INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, true), (2, 3, true), (3, 20260101, true)",
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.check(t.Context(), db); !errors.Is(err, ErrOutdated) {
				t.Errorf("check before: %v, want ErrOutdated", err)
			}
			if err := d.up(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			if err := d.check(t.Context(), db); err != nil {
				t.Errorf("check after: %v", err)
			}
			var rows int
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM goose_db_version").Scan(&rows); err != nil || rows != 3 {
				t.Errorf("the other application has %d rows, %v", rows, err)
			}
		})
	}
}

// TestASchemaOfItsOwn has two installations in one database.
func TestASchemaOfItsOwn(t *testing.T) {
	dsn := testenv.Postgres(t)
	for _, schema := range []string{"shop", "staging"} {
		if _, err := open(t, "pgx", dsn).ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		db := open(t, "pgx", dsn+"&search_path="+schema)
		if err := CheckPostgres(t.Context(), db); !errors.Is(err, ErrOutdated) {
			t.Errorf("%s: check before: %v, want ErrOutdated", schema, err)
		}
		if err := Postgres(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if err := CheckPostgres(t.Context(), db); err != nil {
			t.Errorf("%s: check after: %v", schema, err)
		}
	}
}

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	dsn := testenv.Postgres(t)
	var g errgroup.Group
	for range 8 {
		db := open(t, "pgx", dsn)
		g.Go(func() error { return Postgres(t.Context(), db) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	db := open(t, "pgx", dsn)
	var applied int
	if err := db.QueryRowContext(t.Context(),
		"SELECT count(*) FROM tidegate_versions WHERE version_id = 1").Scan(&applied); err != nil {
		t.Fatal(err)
	}
	if applied != 1 {
		t.Fatalf("version 1 was applied %d times", applied)
	}
}

// Code that runs on both must find the same names in both.
func TestDialectsAgree(t *testing.T) {
	schemas := map[string]map[string][]string{}
	for _, d := range dialects {
		db := open(t, d.driver, d.dsn(t))
		if err := d.up(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		schemas[d.name] = tables(t, db, d.columns)
	}
	for _, table := range []string{"processes", "recovery_acks"} { // SQLite serves one process
		if schemas["postgres"][table] == nil {
			t.Errorf("postgres has no table %s", table)
		}
		delete(schemas["postgres"], table)
	}
	if diff := cmp.Diff(schemas["postgres"], schemas["sqlite"]); diff != "" {
		t.Errorf("postgres (-) and sqlite (+) differ:\n%s", diff)
	}
}

// TestEventsAreOnlyAdded is what makes the feed of changes a record.
func TestEventsAreOnlyAdded(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			db := open(t, d.driver, d.dsn(t))
			if err := d.up(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			at := map[string]string{"postgres": "now()", "sqlite": "1"}[d.name]
			if _, err := db.ExecContext(t.Context(), `INSERT INTO order_events (at, order_id, status)
				VALUES (`+at+`, '00000000-0000-8000-8000-000000000001', 'confirmed')`); err != nil {
				t.Fatal(err)
			}
			for _, change := range []string{`UPDATE order_events SET status = 'paid'`, `DELETE FROM order_events`} {
				if _, err := db.ExecContext(t.Context(), change); err == nil || !strings.Contains(err.Error(), "only added to") {
					t.Errorf("%s: %v", change, err)
				}
			}
		})
	}
}
