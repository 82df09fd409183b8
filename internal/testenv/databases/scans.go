package databases

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// LooksUpFew fails if looking rows up reads many others in a session of Postgres that planned its statements when there were few.
// open opens a store on a pool with one session. add adds rows first to last to the tables; look looks row n up in all ways that there are,
// each row once.
func LooksUpFew(t *testing.T, tables []string, open func(pool *pgxpool.Pool) (add func(first, last int), look func(n int))) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	exec := func(statement string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rowsRead := func() (n int) {
		t.Helper()
		exec(`SELECT pg_stat_force_next_flush()`)
		if err := pool.QueryRow(t.Context(), `SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables WHERE relname = ANY($1)`, tables).
			Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const (
		looks = 30 // by then a session keeps the plan of a prepared statement
		rows  = 20_000
	)
	add, look := open(pool)
	add(1, looks)
	for _, table := range tables {
		exec(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`)
		exec(`VACUUM ANALYZE ` + table) // otherwise Postgres assumes ten pages
	}
	for n := range looks {
		look(n + 1)
	}
	add(looks+1, rows)
	before := rowsRead()
	for n := range looks {
		look(rows - n)
	}
	if n := rowsRead() - before; n < looks || n > rows/10 {
		t.Errorf("%d rows of %v were read to look %d up", n, tables, looks)
	}
}
