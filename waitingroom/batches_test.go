package waitingroom_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
)

// Claims and joins of a room do not wait for another room, whose row is locked.
func TestRoomsDoNotWaitForEachOther(t *testing.T) {
	db, err := sql.Open("pgx", databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := &house{T: t, db: db, store: waitingroom.Postgres(db), shop: newShop(2)}
	h.standAlone(2)
	d := h.status().Definition
	d.Room = "hats"
	if _, _, err := h.rooms.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	h.join("ann", "bob", "cem")
	if _, err := outcome(h.rooms.Join(t.Context(), "hats", user("ann"), 1)); err != nil {
		t.Fatal(err)
	}
	h.later(time.Second)

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"waiting_rooms", "waiting_tails"} {
		if _, err := tx.ExecContext(t.Context(), `UPDATE `+table+` SET room = room WHERE room = $1`, name); err != nil {
			t.Fatal(err)
		}
	}
	var waiting sync.WaitGroup
	calls := []func(){
		func() { _, _, _ = h.rooms.Claim(t.Context(), name, user("ann")) },
		func() { _, _, _ = h.rooms.Join(t.Context(), name, user("bob"), 1) },
	}
	for i, call := range calls {
		waiting.Go(call)
		for n, end := 0, time.Now().Add(time.Minute); n <= i; <-time.After(time.Millisecond) {
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("%d batches wait for the room, want %d", n, i+1)
			}
		}
	}
	within, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if p, err := outcome(h.rooms.Claim(within, "hats", user("ann"))); err != nil || p.State != waitingroom.StateAdmitted {
		t.Errorf("a claim of another room: %s, %v", p.State, err)
	}
	if _, err := outcome(h.rooms.Join(within, "hats", user("bob"), 1)); err != nil {
		t.Errorf("a join of another room: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
}
