package waitingroom_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// status returns the room.
func (h *house) status() waitingroom.Status {
	h.Helper()
	s, err := h.rooms.Room(h.Context(), name)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// ticks does n ticks of a fifth of a second, and returns how many positions were served in each.
func (h *house) ticks(n int) []int64 {
	h.Helper()
	var each []int64
	for range n {
		before := h.status().Served
		h.tick(200 * time.Millisecond)
		each = append(each, h.status().Served-before)
	}
	h.verify()
	return each
}

// A room gives fewer turns while orders wait too long for their commit, but never none, and all of them soon after.
func TestSlowCommitsBrakeTheRoom(t *testing.T) {
	onPostgres(t, func(t *testing.T, h *house) {
		h.shop.free = 100_000
		h.open(func(*waitingroom.Definition) {})
		h.crowd(4_000, "", nil)
		h.shop.lag = 2 * time.Second // just in time
		if served := h.ticks(2); served[0] != 200 || served[1] != 200 {
			t.Errorf("in time: %d", served)
		}
		h.shop.lag = 2*time.Second + time.Millisecond
		served := h.ticks(60)
		for i, n := range served {
			if n < 1 || i > 0 && n > served[i-1] {
				t.Fatalf("too slow, from tick to tick: %d", served)
			}
		}
		if s := h.status(); served[5] > 100 || served[59] != 1 || s.Brake != 1.0/200 || s.Lag != h.shop.lag {
			t.Errorf("too slow: %d, brake %v, lag %v", served, s.Brake, s.Lag)
		}
		h.shop.lag = 0
		for range 52 {
			h.tick(time.Second)
		}
		if s := h.status(); s.Brake != 1 || s.Lag != 0 {
			t.Errorf("in time again: %+v", s)
		}
	})
}

// The brake lowers the rate of a room too, and lets go while the room is held.
func TestSlowCommitsLowerTheRate(t *testing.T) {
	onPostgres(t, func(t *testing.T, h *house) {
		h.shop.free, h.shop.lag = 100_000, time.Minute
		h.open(func(d *waitingroom.Definition) { d.RatePerMin = 6000 })
		h.crowd(4_000, "", nil)
		served := h.ticks(100)
		if sum := served[98] + served[99]; served[0] < 10 || sum > 1 {
			t.Errorf("%d", served)
		}
		h.shop.lag = 0
		if _, err := h.rooms.Hold(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.later(2 * time.Minute)
		if s := h.status(); s.Brake != 1 {
			t.Errorf("%+v", s)
		}
	})
}
