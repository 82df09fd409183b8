package waitingroom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// While nobody can order, nobody gets a turn, is admitted or loses a turn or a pass; the room says why.
func TestARoomWaitsForItsSale(t *testing.T) {
	for state, message := range map[waitingroom.SaleState]string{waitingroom.SalePaused: "paused", waitingroom.SaleNotStarted: "not started"} {
		t.Run(string(state), func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.shop.free = 2
				h.open(func(*waitingroom.Definition) {})
				h.join("ann", "bob", "eve")
				h.later(2 * time.Second)
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
					t.Fatal(err)
				}
				h.shop.set(state)
				h.later(2 * time.Second)
				if s := h.status(); s.Phase != waitingroom.PhaseHeld || !strings.Contains(s.Message, message) {
					t.Errorf("%s: %s, %q", state, s.Phase, s.Message)
				}
				if _, err := h.rooms.SetMessage(t.Context(), name, "Back at eight.", waitingroom.Cause{}); err != nil {
					t.Fatal(err)
				}
				if s := h.status(); s.Message != "Back at eight." {
					t.Errorf("the operator's message is hidden by %q", s.Message)
				}
				if _, no, err := h.rooms.Claim(t.Context(), name, user("bob")); refused(no, err) != waitingroom.ReasonAtCapacity {
					t.Errorf("a claim in a sale that is %s: %+v, %v", state, no, err)
				}
				h.shop.add(5)
				h.later(4 * time.Minute)
				got := h.states("ann", "bob", "eve")
				if got[waitingroom.StateAdmitted] != 1 || got[waitingroom.StateTurn] != 1 || got[waitingroom.StateWaiting] != 1 {
					t.Errorf("after four minutes: %v", got)
				}
				h.shop.set(waitingroom.SaleOpen)
				h.later(4 * time.Second)
				if s := h.status(); s.Phase != waitingroom.PhaseServing || h.place("eve").State != waitingroom.StateTurn {
					t.Errorf("when the sale goes on: %s, eve is %s", s.Phase, h.place("eve").State)
				}
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user("bob"))); err != nil {
					t.Error(err)
				}
				h.later(2 * time.Minute)
				if p := h.place("eve"); p.State != waitingroom.StateLapsed {
					t.Errorf("eve, who claims nothing, is %s", p.State)
				}
			})
		})
	}
}

// Before its own start a room gathers, whatever its sale does, unless the sale is over.
func TestARoomGathersBeforeItsSale(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.set(waitingroom.SaleNotStarted)
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Minute)
		})
		h.join("ann")
		h.later(2 * time.Second)
		if s := h.status(); s.Phase != waitingroom.PhaseGathering || s.Message != "" {
			t.Errorf("%s, %q", s.Phase, s.Message)
		}
		h.jump(time.Minute)
		h.later(2 * time.Second)
		if s := h.status(); s.Phase != waitingroom.PhaseHeld || s.Draw.Seed == "" {
			t.Errorf("after its start: %s, %+v", s.Phase, s.Draw)
		}
		h.shop.set(waitingroom.SaleOpen)
		h.later(4 * time.Second)
		if p := h.place("ann"); p.State != waitingroom.StateTurn {
			t.Errorf("when the sale starts: %s", p.State)
		}
	})
}

// A room ends with its sale: whoever has no pass is turned away, nobody joins, and the items still need turns.
func TestARoomEndsWithItsSale(t *testing.T) {
	for what, started := range map[string]time.Duration{"gathering": time.Minute, "serving": -time.Minute} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.shop.free = 2
				h.open(func(d *waitingroom.Definition) { d.StartsAt = time.Now().Add(started) })
				h.join("ann", "bob", "eve")
				h.later(2 * time.Second)
				if what == "serving" {
					if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
						t.Fatal(err)
					}
				}
				changed, err := h.rooms.Changed(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				h.shop.set(waitingroom.SaleEnded)
				h.tick(time.Second)
				select {
				case <-changed:
				default:
					t.Error("nobody is told")
				}
				if s := h.status(); s.Phase != waitingroom.PhaseClosed || s.Message != "The sale is over." {
					t.Errorf("%s, %q", s.Phase, s.Message)
				}
				want := map[waitingroom.State]int{waitingroom.StateTurnedAway: 3}
				if what == "serving" {
					want = map[waitingroom.State]int{waitingroom.StateAdmitted: 1, waitingroom.StateLapsed: 1, waitingroom.StateTurnedAway: 1}
				}
				for state, n := range want {
					if got := h.states("ann", "bob", "eve"); got[state] != n {
						t.Errorf("%d are %s: %v", n, state, got)
					}
				}
				if _, no, err := h.rooms.Join(t.Context(), name, user("late"), 1); refused(no, err) != waitingroom.ReasonEnded {
					t.Errorf("a join: %v", err)
				}
				found, err := h.rooms.Places(t.Context(), name, waitingroom.Filter{User: "eve", Limit: 9})
				if err != nil || len(found) != 1 || found[0].Steps[len(found[0].Steps)-1].Cause != "the sale is over" {
					t.Errorf("%+v, %v", found, err)
				}
				if err := h.rooms.UnguardClosed(t.Context()); err != nil || h.shop.guardedBy() != name {
					t.Errorf("the item needs a turn of %q, %v", h.shop.guardedBy(), err)
				}
				h.shop.set(waitingroom.SaleOpen) // it was prolonged
				h.later(4 * time.Second)
				if s := h.status(); s.Phase != waitingroom.PhaseClosed {
					t.Errorf("a room that ended is %s", s.Phase)
				}
				if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil || h.shop.guardedBy() != "" {
					t.Errorf("after an operator closed it, the item needs a turn of %q, %v", h.shop.guardedBy(), err)
				}
			})
		})
	}
}
