package waitingroom_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/waitingroom"
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
