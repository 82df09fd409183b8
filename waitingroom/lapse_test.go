package waitingroom_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
)

// A tick waits for no place that somebody who joins again is replacing, which could wait for another place of the tick.
func TestLapseWaitsForNobody(t *testing.T) {
	db, err := sql.Open("pgx", databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := &house{T: t, db: db, store: waitingroom.Postgres(db), shop: newShop(2)}
	h.open(func(*waitingroom.Definition) {})
	h.join("ann", "bob")
	h.later(59 * time.Second)
	marked := func() (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM waiting_places WHERE lapsed_at > 0`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE waiting_places SET replaced = replaced WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 2 {
		h.jump(2 * time.Second)
		if err := h.rooms.Tick(within, name); err != nil {
			t.Fatal(err)
		}
	}
	if n := marked(); n != 1 {
		t.Errorf("while ann's place is locked, %d are marked", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	h.later(2 * time.Second)
	if n := marked(); n != 2 {
		t.Errorf("afterwards %d are marked", n)
	}
}
