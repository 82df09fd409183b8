package waitingroom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/waitingroom"
)

// A crowd of those who gave up, were replaced or are banned delays nobody behind it: the next tick skips all of them.
func TestDeadHeadsDelayNobody(t *testing.T) {
	for what, dead := range map[string]struct {
		column string
		value  any
	}{"left": {"left_at", 1}, "replaced": {"replaced", 1}, "barred": {"barred", "x"}} {
		for _, mode := range []waitingroom.Mode{waitingroom.ModeFIFO, waitingroom.ModeDraw} {
			t.Run(what+" "+string(mode), func(t *testing.T) {
				each(t, func(t *testing.T, h *house) {
					h.open(func(d *waitingroom.Definition) {
						if d.Mode = mode; mode == waitingroom.ModeDraw {
							d.StartsAt = time.Now().Add(time.Minute)
						}
						d.Sale, d.Item, d.RatePerMin = "", "", 60 // some turns a tick
					})
					crowd := int64(19_990)
					if mode == waitingroom.ModeDraw {
						crowd = 4_000 // each costs twenty hashes
					}
					h.crowd(h.few(crowd), dead.column, dead.value)
					h.join("ann", "bob")
					h.tick(time.Minute)
					for range 20 { // one gets a turn a second; with -race a tick does not look at all of them in its time
						if h.later(time.Second); h.place("bob").State == waitingroom.StateTurn && h.place("ann").State == waitingroom.StateTurn {
							break
						}
					}
					for _, who := range []string{"ann", "bob"} {
						if s := h.place(who).State; s != waitingroom.StateTurn {
							t.Errorf("%s is %s", who, s)
						}
					}
				})
			})
		}
	}
}

// The cursor stands behind the last place that got a turn, and not behind one that waits among dead ones.
func TestDeadPlacesAmongLivingOnes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 2
		h.open(func(*waitingroom.Definition) {})
		h.crowd(300, "left_at", 1)
		h.join("ann")
		h.crowd(300, "replaced", 1)
		h.join("bob")
		h.crowd(300, "left_at", 1)
		h.join("cem")
		h.crowd(300, "left_at", 1)
		h.later(time.Second)
		room, err := h.rooms.Room(t.Context(), name)
		if err != nil || room.Served != 602 {
			t.Errorf("%d positions were served, %v", room.Served, err)
		}
		if a, b, c := h.place("ann").State, h.place("bob").State, h.place("cem"); a != waitingroom.StateTurn || b != waitingroom.StateTurn || c.State != waitingroom.StateWaiting {
			t.Errorf("%s, %s, %+v", a, b, c)
		}
		h.shop.free = 3
		h.later(time.Second)
		if s := h.place("cem").State; s != waitingroom.StateTurn {
			t.Errorf("cem is %s", s)
		}
	})
}

// Many who are banned when their turn comes are barred in one tick.
func TestBannedHeadsDelayNobody(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.bans = func(user string) string {
			if strings.HasPrefix(user, "crowd ") {
				return "banned"
			}
			return ""
		}
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.RatePerMin = "", "", 60 })
		h.crowd(1_990, "", nil)
		h.join("ann")
		for range 20 { // as above
			if h.later(time.Second); h.place("ann").State == waitingroom.StateTurn {
				break
			}
		}
		if s := h.place("ann").State; s != waitingroom.StateTurn {
			t.Errorf("ann is %s", s)
		}
		last, err := h.rooms.Places(t.Context(), name, waitingroom.Filter{After: 1_989, Limit: 1})
		if err != nil || len(last) != 1 || last[0].State != waitingroom.StateBarred || last[0].Reason != "banned" || last[0].Position != 1_990 {
			t.Errorf("%+v, %v", last, err)
		}
	})
}

// Who gives up one place after another has to wait longer and longer for the next; one who lapses does not.
func TestRejoining(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 0
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		for i, wait := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
				t.Fatal(err)
			}
			if wait > 0 {
				_, no, err := h.rooms.Join(t.Context(), name, user("ann"), 1)
				if refused(no, err) != waitingroom.ReasonRateLimited || no.RetryAfter != wait {
					t.Errorf("after giving up %d places: %+v, %v", i+1, no, err)
				}
				h.later(wait - time.Second)
				if _, err := outcome(h.rooms.Join(t.Context(), name, user("ann"), 1)); err == nil {
					t.Errorf("after giving up %d places, ann could join a second too early", i+1)
				}
				h.later(time.Second)
			}
			if p := h.joined("ann"); p.Number != int64(i+2) {
				t.Errorf("%+v", p)
			}
		}
		h.shop.free = 1
		h.later(2 * time.Minute) // the turn lapses
		h.join("ann")
		if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
			t.Fatal(err)
		}
		h.join("ann")
	})
}
