package waitingroom_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// closedElsewhere closes the room as a process does that ends before it lets the item be ordered.
func (h *house) closedElsewhere() {
	h.Helper()
	h.amend(name, func(r *store.Room) { r.Saved.Ended, r.Saved.EndedAt = "closed", 1 })
}

func TestAnInterruptedCloseIsFinished(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.closedElsewhere()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		over := make(chan error)
		go func() { over <- h.process().Run(ctx) }()
		for h.shop.guardedBy() != "" && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Error("orders of the item still need a turn of a room that is closed")
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// A room that is closed while an operator changes it does not guard its item again.
func TestAChangeOfAClosedRoomGuardsNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		d := h.status().Definition
		h.shop.guarding = h.closedElsewhere
		if _, _, err := h.rooms.Put(t.Context(), d); !errors.Is(err, waitingroom.ErrConflict) {
			t.Errorf("%v, want ErrConflict", err)
		}
		if room := h.shop.guardedBy(); room != "" {
			t.Errorf("orders of the item need a turn of room %s, which is closed", room)
		}
	})
}
