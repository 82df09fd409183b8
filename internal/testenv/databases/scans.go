package databases

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// OneSession returns a migrated Postgres with a single session, whose plans are kept as long as a session keeps them: nothing gathers
// statistics of the tables.
func OneSession(t testing.TB, tables ...string) *pgxpool.Pool {
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
	for _, table := range tables {
		if _, err := pool.Exec(t.Context(), `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// Scanned returns how many rows of a table the session of OneSession has read without an index.
func Scanned(t testing.TB, pool *pgxpool.Pool, table string) (rows int64) {
	t.Helper()
	for range 2 { // it reports at the end of a transaction, once a second
		time.Sleep(1100 * time.Millisecond)
		if err := pool.QueryRow(t.Context(), `SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&rows); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}
