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

// Somebody who joins again before a tick has marked the lapsed place has two. What happens to the old one does not happen to the new one.
func TestAnOldPlaceIsNotTheNewOne(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		old := h.joined("ann")
		h.later(60 * time.Second)
		h.jump(2 * time.Second)
		again := h.joined("ann")
		if again.Number == old.Number {
			t.Fatalf("%+v", again)
		}
		h.tick(0)
		if err := h.rooms.Leave(t.Context(), name, byToken(old)); err != nil {
			t.Error(err)
		}
		h.tick(0)
		if p := h.place("ann"); p.Number != again.Number || p.State != waitingroom.StateTurn {
			t.Errorf("%+v", p)
		}
		var lapsed, left int64
		_, places := h.rows()
		for _, p := range places {
			if p.LapsedAt > 0 {
				lapsed = p.Number
			}
			if p.LeftAt > 0 {
				left++
			}
		}
		if lapsed != old.Number || left != 0 {
			t.Errorf("place %d has lapsed, want %d, and %d have left", lapsed, old.Number, left)
		}
		h.verify()
	})
}
