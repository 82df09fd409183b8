package sqldb_test

import (
	"database/sql"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestTransactionsThatMeet: two that must not run at the same time both succeed, the second one repeated.
func TestTransactionsThatMeet(t *testing.T) {
	t.Parallel()
	const increment = `UPDATE meet SET n = n + 1 WHERE id = $1`
	for name, c := range map[string]struct {
		options string
		second  string // statement after both transactions have changed a row of their own
	}{
		"deadlock":      {second: increment},
		"serialization": {options: "&default_transaction_isolation=serializable", second: `UPDATE meet SET n = n + 1 WHERE id = 3 AND $1 > 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open("pgx", testenv.Postgres(t)+c.options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if _, err := db.ExecContext(t.Context(), `CREATE TABLE meet (id int PRIMARY KEY, n int NOT NULL DEFAULT 0); INSERT INTO meet VALUES (1), (2), (3)`); err != nil {
				t.Fatal(err)
			}
			var (
				runs [2]int
				errs [2]error
				both sync.WaitGroup // have changed their first row
				ends sync.WaitGroup
			)
			both.Add(2)
			for i := range 2 {
				ends.Go(func() {
					errs[i] = sqldb.Postgres(db).InTx(t.Context(), func(tx sqldb.Conn) error {
						runs[i]++
						if _, err := tx.Exec(t.Context(), increment, i+1); err != nil {
							return err
						}
						if runs[i] == 1 {
							both.Done()
							both.Wait()
						}
						_, err := tx.Exec(t.Context(), c.second, 2-i)
						return err
					})
				})
			}
			ends.Wait()
			var sum int
			if err := db.QueryRowContext(t.Context(), `SELECT sum(n) FROM meet`).Scan(&sum); err != nil {
				t.Fatal(err)
			}
			if errs[0] != nil || errs[1] != nil || sum != 4 || runs[0]+runs[1] < 3 {
				t.Errorf("errors %v, %d changes, %v runs: want no error, 4 changes, and a repeat", errs, sum, runs)
			}
		})
	}
}

// TestWhatIsRepeated, and how often.
func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		runs int
	}{
		{nil, 1},
		{&pgconn.PgError{Code: "40001"}, 4},
		{errors.Join(&pgconn.PgError{Code: "40P01"}), 4},
		{&pgconn.PgError{Code: "40002"}, 1},
		{errors.New("40001"), 1},
	} {
		runs := 0
		err := sqldb.Repeat(func() error { runs++; return c.err })
		if !errors.Is(err, c.err) || runs != c.runs {
			t.Errorf("%v: %d runs, and the error %v; want %d", c.err, runs, err, c.runs)
		}
	}
}
