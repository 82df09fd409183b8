package waitingroom_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// A database that takes a query and does not answer blocks nobody for good.
func TestARefreshThatHangsEnds(t *testing.T) {
	db, err := sql.Open("pgx", databases.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := &house{T: t, db: db, store: waitingroom.Postgres(db), shop: newShop(1)}
	h.open(func(*waitingroom.Definition) {})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE waiting_rooms IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.rooms.Refresh(context.Background()) }()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // beside the refresh, and after it
		if err := h.rooms.Refresh(impatient); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("somebody who does not wait: %v", err)
		}
		if err := <-ended; !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("the refresh: %v", err)
		}
		ended <- waitingroom.ErrUnavailable
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := h.rooms.Refresh(t.Context()); err != nil {
		t.Errorf("when the database answers: %v", err)
	}
}

// Damaged data of one room stop no other room.
func TestADamagedRoomStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Room, d.Sale, d.Item, d.Capacity, d.Mode = "damaged", "", "", 1, waitingroom.ModeDraw
		})
		h.open(func(*waitingroom.Definition) {})
		h.amend("damaged", func(r *store.Room) { r.Saved.NDrawn, r.Saved.DrawnAt, r.Saved.Root = 1, 1, "no root" })
		h.join("ann")
		h.tick(time.Second)
		if p := h.place("ann"); p.State != waitingroom.StateTurn {
			t.Errorf("%+v", p)
		}
		h.tick(time.Minute)
		if _, err := h.rooms.Room(t.Context(), name); err != nil {
			t.Error(err)
		}
		if s, err := h.rooms.Room(t.Context(), "damaged"); err != nil || s.Phase != waitingroom.PhaseRecovering {
			t.Errorf("%v, %v", s.Phase, err)
		}
		if p, err := h.rooms.Place(t.Context(), "damaged", user("ann")); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("a place of the damaged room: %+v, %v", p, err)
		}
		if s, err := h.process().Room(t.Context(), "damaged"); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Errorf("the damaged room in a process that has never read it: %+v, %v", s, err)
		}
	})
}
