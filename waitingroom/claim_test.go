package waitingroom_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

// Nobody may order with a pass that the database does not have.
func TestARightToOrderFollowsTheCommit(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		h.later(time.Second)
		h.breaks("ended_at = $32", "ended_at = $32 / 0", func(op memory.Op) bool { return op == "Write" }) // the last statement before the commit fails
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err == nil {
			t.Fatal("the claim was stored")
		}
		h.jump(0)
		if admitted, _ := h.shop.order("ann"); admitted || h.place("ann").State != waitingroom.StateTurn {
			t.Errorf("ann may order: %t, and is %s", admitted, h.place("ann").State)
		}
	})
}

// While the right to order is given, the room goes on: who leaves meanwhile gets none, until the next turn.
func TestLeavingWhileTheRightIsGiven(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		h.later(time.Second)
		h.shop.admitting = func() {
			if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
				t.Error(err)
			}
		}
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		h.shop.admitting = nil
		restored, err := h.rooms.Restore(t.Context(), "spring", "shoe", "ann")
		if admitted, _ := h.shop.order("ann"); admitted || restored || err != nil {
			t.Errorf("ann, who left, may order: %t, restored %t, %v", admitted, restored, err)
		}
		h.join("ann")
		h.later(time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		if _, got := h.shop.order("ann"); !got {
			t.Error("ann came again, and may not order")
		}
	})
}

// A right that could not be given is given by a repeated claim, or when an order is refused.
func TestAMissingRightIsRestored(t *testing.T) {
	for what, again := range map[string]func(h *house) error{
		"claim": func(h *house) error {
			_, err := outcome(h.rooms.Claim(h.Context(), name, user("ann")))
			return err
		},
		"order": func(h *house) error {
			restored, err := h.rooms.Restore(h.Context(), "spring", "shoe", "ann")
			if !restored {
				h.Error("nothing was restored")
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.open(func(*waitingroom.Definition) {})
				h.join("ann")
				h.later(time.Second)
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
					t.Fatal(err)
				}
				clear(h.shop.admitted)
				h.jump(time.Second)
				if err := again(h); err != nil {
					t.Fatal(err)
				}
				if _, got := h.shop.order("ann"); !got {
					t.Error("ann may not order")
				}
			})
		})
	}
}
