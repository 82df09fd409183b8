package waitingroom_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/draw"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

// W1: one place a user, however many join at once, on however many processes.
func TestOnePlaceAUser(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		other := h.process()
		var wg sync.WaitGroup
		var mu sync.Mutex
		created, numbers := 0, map[int64]int{}
		for i := range 1000 {
			wg.Go(func() {
				rooms := h.rooms
				if i%2 == 1 {
					rooms = other
				}
				p, err := outcome(rooms.Join(t.Context(), name, user("ann"), 1))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				numbers[p.Number]++
				if p.Created {
					created++
				}
			})
		}
		wg.Wait()
		if created != 1 || numbers[1] != 1000 {
			t.Errorf("created %d, numbers %v", created, numbers)
		}
		if p := h.joined("bob"); p.Number != 2 {
			t.Errorf("the next has number %d", p.Number)
		}
	})
}

// W5: who was answered before somebody else asked is in front.
func TestFirstComeFirstServed(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		other := h.process()
		for i, who := range people(40) {
			rooms := h.rooms
			if i%2 == 1 {
				rooms = other
			}
			p, err := outcome(rooms.Join(t.Context(), name, user(who), 1))
			if err != nil || p.Position != int64(i+1) || p.State != waitingroom.StateWaiting {
				t.Errorf("%+v, %v", p, err)
			}
		}
	})
}

// W17, W13: turns are given for what is free, and again for what silent people do not take.
func TestTurnsForTheStock(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 3
		h.open(func(*waitingroom.Definition) {})
		h.join(people(10)...)
		h.later(time.Second)
		if diff := cmp.Diff(map[waitingroom.State]int{waitingroom.StateTurn: 3, waitingroom.StateWaiting: 7}, h.states(people(10)...)); diff != "" {
			t.Fatal(diff)
		}
		if _, no, err := h.rooms.Claim(t.Context(), name, user("user-5")); refused(no, err) != waitingroom.ReasonNotYourTurn {
			t.Errorf("claim while waiting: %+v, %v", no, err)
		}
		first, err := outcome(h.rooms.Claim(t.Context(), name, user("user-0")))
		if err != nil || first.State != waitingroom.StateAdmitted {
			t.Fatal(first, err)
		}
		if admitted, got := h.shop.order("user-0"); !admitted || !got {
			t.Error("the admitted user got no unit")
		}
		h.later(time.Minute) // 1 and 2 say nothing
		if p := h.place("user-0"); p.State != waitingroom.StateDone || p.OrderID == "" {
			t.Errorf("%+v", p)
		}
		want := map[waitingroom.State]int{waitingroom.StateLapsed: 2, waitingroom.StateTurn: 2, waitingroom.StateWaiting: 5}
		if diff := cmp.Diff(want, h.states(people(10)[1:]...)); diff != "" {
			t.Error(diff)
		}
		if _, no, err := h.rooms.Claim(t.Context(), name, user("user-1")); refused(no, err) != waitingroom.ReasonTurnLapsed {
			t.Errorf("claim after the window: %+v, %v", no, err)
		}
		if p := h.joined("user-1"); p.Position != 11 || p.State != waitingroom.StateWaiting {
			t.Errorf("who joins again is %+v", p)
		}
	})
}

// While no process runs, no window ends.
func TestOutageStopsTheClock(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		h.later(time.Second)
		h.jump(time.Hour)
		h.later(time.Second)
		if p, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil || p.State != waitingroom.StateAdmitted {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// While the database does not answer, a room says that it recovers, and one that is over says so still.
func TestRoomsDuringAnOutage(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		phase := func(want waitingroom.Phase) {
			t.Helper()
			s, err := h.rooms.Room(t.Context(), name)
			if err != nil || s.Phase != want || s.Joined != 1 {
				t.Errorf("want %s, got %s, %d joined, %v", want, s.Phase, s.Joined, err)
			}
			if _, err := h.rooms.Changed(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
		outage := func(by time.Duration) {
			t.Helper()
			ended, end := context.WithCancel(t.Context())
			end()
			h.at = h.at.Add(by)
			if err := h.rooms.SetClock(ended, h.at); err == nil {
				t.Fatal("the rooms were read")
			}
			h.breaks("waiting_rooms", "nothing", func(memory.Op) bool { return true })
		}
		h.later(time.Second)
		outage(2 * time.Second)
		phase(waitingroom.PhaseServing)
		outage(2 * time.Second)
		phase(waitingroom.PhaseRecovering)
		if _, err := h.rooms.Place(t.Context(), name, user("ann")); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Error(err)
		}
		if _, err := h.rooms.Room(t.Context(), "boots"); !errors.Is(err, waitingroom.ErrUnavailable) {
			t.Error(err)
		}
		h.jump(0)
		phase(waitingroom.PhaseServing)
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		outage(time.Hour)
		phase(waitingroom.PhaseClosed)
	})
}

// After an outage a window that ran is still open, whoever comes first: a claim, a join, or an operator who holds the room.
func TestAnOutageEndsNoWindow(t *testing.T) {
	for what, first := range map[string]func(*house) error{
		"claim": func(*house) error { return nil },
		"join": func(h *house) error {
			p, err := outcome(h.rooms.Join(h.Context(), name, user("ann"), 1))
			if p.Created {
				h.Error("the place was replaced")
			}
			return err
		},
		"hold": func(h *house) error {
			if _, err := h.rooms.Hold(h.Context(), name, waitingroom.Cause{}); err != nil {
				return err
			}
			_, err := h.rooms.Resume(h.Context(), name, waitingroom.Cause{})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.shop.free = 1
				h.open(func(*waitingroom.Definition) {})
				h.join("ann")
				h.later(time.Second)
				h.jump(time.Hour)
				if err := first(h); err != nil {
					t.Fatal(err)
				}
				if p, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil || p.State != waitingroom.StateAdmitted {
					t.Errorf("%+v, %v", p, err)
				}
			})
		})
	}
}

// A turn keeps its time, whatever the operator makes of those that come; what people were promised cannot be changed.
func TestAChangedRoomKeepsItsPromises(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob")
		h.later(time.Second)
		room, err := h.rooms.Room(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		until := h.place("ann").TurnUntil
		for _, claim := range []time.Duration{time.Second, time.Hour} {
			d := room.Definition
			d.ClaimWindow, d.PassLifetime = claim, claim
			if _, _, err := h.rooms.Put(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if now := h.place("ann").TurnUntil; !now.Equal(until) {
				t.Errorf("with claim_ms %v the turn ends %v, and ended %v", claim, now, until)
			}
		}
		for what, change := range map[string]func(*waitingroom.Definition){
			"mode":          func(d *waitingroom.Definition) { d.Mode = waitingroom.ModeDraw },
			"bound":         func(d *waitingroom.Definition) { d.Bound = waitingroom.BoundExpected },
			"starts_at":     func(d *waitingroom.Definition) { d.StartsAt = d.StartsAt.Add(time.Second) },
			"item":          func(d *waitingroom.Definition) { d.Item = "hat" },
			"requires_user": func(d *waitingroom.Definition) { d.Sale, d.Item, d.RequiresUser = "", "", false },
		} {
			d := room.Definition
			change(&d)
			if _, _, err := h.rooms.Put(t.Context(), d); !errors.Is(err, waitingroom.ErrConflict) {
				t.Errorf("another %s: %v", what, err)
			}
		}
	})
}

// A stock that cannot be read stops the room; when it is gone for good, everybody is told, but not before all is paid.
func TestTheEndOfTheStock(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free, h.shop.final, h.shop.unsettled = 1, true, true
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob")
		h.later(time.Second)
		h.shop.away = true
		h.later(5 * time.Minute)
		if s := h.place("ann").State; s != waitingroom.StateTurn {
			t.Errorf("while the stock is away: %s", s)
		}
		if room, err := h.rooms.Room(t.Context(), name); err != nil || room.Phase != waitingroom.PhaseRecovering {
			t.Errorf("%+v, %v", room, err)
		}
		if room, err := h.rooms.Hold(t.Context(), name, waitingroom.Cause{}); err != nil || room.Phase != waitingroom.PhaseHeld {
			t.Errorf("held meanwhile: %+v, %v", room, err)
		}
		if room, err := h.rooms.Resume(t.Context(), name, waitingroom.Cause{}); err != nil || room.Phase != waitingroom.PhaseRecovering {
			t.Errorf("resumed meanwhile: %+v, %v", room, err)
		}
		h.shop.away = false
		h.later(time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		h.shop.order("ann")
		h.later(5 * time.Second)
		if p := h.place("bob"); p.State != waitingroom.StateWaiting || p.Outlook != waitingroom.OutlookReturns {
			t.Errorf("while an order is not paid: %+v", p)
		}
		h.shop.unsettled = false
		h.later(5 * time.Second)
		if p := h.place("bob"); p.State != waitingroom.StateTurnedAway || p.Outlook != waitingroom.OutlookNone {
			t.Errorf("at the end: %+v", p)
		}
		if _, no, err := h.rooms.Join(t.Context(), name, user("cem"), 1); refused(no, err) != waitingroom.ReasonSoldOut {
			t.Errorf("who joins then: %v", err)
		}
	})
}

// A room whose stock is back goes on, whatever arrives between two ticks.
func TestClaimsDoNotKeepARoomStalled(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob")
		h.later(time.Second)
		claimFor := func(d time.Duration) {
			t.Helper()
			for ; d > 0; d -= 100 * time.Millisecond {
				h.tick(100 * time.Millisecond)
				_, _, _ = h.rooms.Claim(t.Context(), name, user("bob")) // it is not bob's turn
			}
		}
		h.shop.away = true
		claimFor(20 * time.Second)
		if phase := h.status().Phase; phase != waitingroom.PhaseRecovering {
			t.Fatal(phase)
		}
		h.shop.away = false
		claimFor(time.Second)
		if phase := h.status().Phase; phase != waitingroom.PhaseServing {
			t.Errorf("when the stock is back: %s", phase)
		}
		until := h.place("ann").TurnUntil
		if left := until.Sub(h.at); left < 50*time.Second || left > time.Minute {
			t.Errorf("ann has %v left", left)
		}
	})
}

// In a room that was closed, whose item needs no turn any more, passes stay valid until they end, and then the room is at rest.
func TestPassesOfAClosedRoomEnd(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob", "cem")
		h.later(time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.later(50 * time.Second)
		if ann, bob := h.place("ann").State, h.place("bob").State; ann != waitingroom.StateAdmitted || bob != waitingroom.StateLapsed {
			t.Errorf("ann is %s, bob is %s", ann, bob)
		}
		h.later(15 * time.Second)
		if s := h.place("ann").State; s != waitingroom.StateLapsed {
			t.Errorf("after the pass ann is %s", s)
		}
		h.tick(30 * 24 * time.Hour)
		if err := h.rooms.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := h.rooms.Rooms(t.Context())
		if _, places := h.counted(); err != nil || len(all) != 0 || places != 0 {
			t.Errorf("a month later: %v, %d places, %v", all, places, err)
		}
	})
}

// Who is banned when the turn comes is barred, and told why; the turn goes on.
func TestBarred(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.banned = map[string]string{"ann": "too many clicks"}
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob")
		h.later(time.Second)
		if p := h.place("ann"); p.State != waitingroom.StateBarred || p.Reason != "too many clicks" {
			t.Errorf("%+v", p)
		}
		if s := h.place("bob").State; s != waitingroom.StateTurn {
			t.Errorf("bob is %s", s)
		}
	})
}

// A database whose clock is set back neither stops the room nor lengthens a window by that.
func TestTheClockIsSetBack(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 1
		h.open(func(d *waitingroom.Definition) {
			d.StartsAt, d.GatherAt = d.StartsAt.Add(-2*time.Hour), d.GatherAt.Add(-2*time.Hour)
		})
		h.join("ann", "bob")
		h.later(time.Second)
		h.jump(-time.Hour)
		h.later(2 * time.Second)
		if s := h.place("ann").State; s != waitingroom.StateTurn {
			t.Errorf("ann is %s", s)
		}
		h.later(time.Minute)
		if s := h.place("bob").State; s != waitingroom.StateTurn {
			t.Errorf("bob is %s", s)
		}
	})
}

// A place and its token survive a change of the secret; whoever waits gets a token of the new one.
func TestAnotherSecret(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		before := h.joined("ann")
		rooms := waitingroom.New(h.store, waitingroom.Options{Secret: make([]byte, 32), PreviousSecret: secret, Stock: h.shop})
		for what, who := range map[string]waitingroom.Visitor{"user": user("ann"), "token": waitingroom.ByToken(before.Token, "ann", false)} {
			if p, err := rooms.Place(t.Context(), name, who); err != nil || p.Number != before.Number {
				t.Errorf("by %s: %+v, %v", what, p, err)
			}
		}
		if p, err := outcome(rooms.Join(t.Context(), name, user("ann"), 1)); err != nil || p.Created || p.Number != before.Number {
			t.Errorf("joining again: %+v, %v", p, err)
		}
		waits, err := rooms.Place(t.Context(), name, waitingroom.Visitor{User: "ann", Token: before.Token})
		if err != nil || waits.State != waitingroom.StateWaiting {
			t.Fatalf("%+v, %v", waits, err)
		}
		later := waitingroom.New(h.store, waitingroom.Options{Secret: make([]byte, 32), Stock: h.shop})
		if p, err := later.Place(t.Context(), name, waitingroom.ByToken(waits.Token, "ann", false)); err != nil || p.Number != before.Number {
			t.Errorf("without the old secret, by the token of a place that waits: %+v, %v", p, err)
		}
	})
}

// Nobody can have more promised than a buyer may order.
func TestQuantityIsBounded(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 6
		h.open(func(*waitingroom.Definition) {})
		for quantity, ok := range map[int]bool{0: false, -1: false, 5: false, 1000: false, 4: true} {
			if _, err := outcome(h.rooms.Join(t.Context(), name, user("ann"), quantity)); (err == nil) != ok || err != nil && !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("quantity %d: %v", quantity, err)
			}
		}
		if _, err := outcome(h.rooms.Join(t.Context(), name, user("bob"), 4)); err != nil {
			t.Fatal(err)
		}
		h.join("cem")
		h.later(time.Second)
		if a, b, c := h.place("ann"), h.place("bob"), h.place("cem"); a.Quantity != 4 || b.Quantity != 2 || c.State != waitingroom.StateWaiting {
			t.Errorf("of 6 units: %d, %d, and %s", a.Quantity, b.Quantity, c.State)
		}
	})
}

// Users have the names that orders accept, and no text can be refused by the database, which would fail a whole batch.
func TestTextIsChecked(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		for _, who := range []string{"a\x00", "a\nb", "\xff", "\uFFFD", strings.Repeat("é", 256)} {
			if _, err := outcome(h.rooms.Join(t.Context(), name, user(who), 1)); !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("user %.10q: %v", who, err)
			}
		}
		h.join("Ann é", strings.Repeat("é", 255))
		for _, text := range []string{"a\x00", "\xff", strings.Repeat("é", 501)} {
			if _, err := h.rooms.SetMessage(t.Context(), name, text, waitingroom.Cause{}); !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("message %.10q: %v", text, err)
			}
			if _, err := h.rooms.SetMessage(t.Context(), name, "soon", waitingroom.Cause{Reason: text}); !errors.Is(err, waitingroom.ErrInvalid) {
				t.Errorf("reason %.10q: %v", text, err)
			}
		}
		if _, err := h.rooms.SetMessage(t.Context(), name, "At 8 pm: 50 % off, é", waitingroom.Cause{}); err != nil {
			t.Error(err)
		}
	})
}

// W14, W15: a held room stops every window, and loses nobody's order.
func TestHoldStopsTheClock(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 2
		h.open(func(*waitingroom.Definition) {})
		h.join(people(5)...)
		h.later(time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("user-0"))); err != nil {
			t.Fatal(err)
		}
		if _, err := h.rooms.Hold(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		before := h.states(people(5)...)
		h.later(5 * time.Minute)
		if diff := cmp.Diff(before, h.states(people(5)...)); diff != "" {
			t.Error(diff)
		}
		if _, no, err := h.rooms.Claim(t.Context(), name, user("user-1")); refused(no, err) != waitingroom.ReasonAtCapacity {
			t.Errorf("claim while held: %+v, %v", no, err)
		}
		if s, err := h.rooms.Resume(t.Context(), name, waitingroom.Cause{}); err != nil || s.Phase != waitingroom.PhaseServing {
			t.Fatal(s, err)
		}
		h.later(55 * time.Second)
		if p, err := outcome(h.rooms.Claim(t.Context(), name, user("user-1"))); err != nil || p.State != waitingroom.StateAdmitted {
			t.Errorf("claim after the hold, within the window: %+v, %v", p, err)
		}
		h.later(4 * time.Second)
		if p := h.place("user-0"); p.State != waitingroom.StateAdmitted {
			t.Errorf("%+v", p)
		}
	})
}

// W10, W11: claims are admitted up to the capacity and the rate; who has to wait keeps the turn.
func TestClaimsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Sale, d.Item, d.Capacity, d.PassLifetime = "", "", 3, 10*time.Minute
		})
		h.join(people(8)...)
		h.later(time.Second)
		if diff := cmp.Diff(map[waitingroom.State]int{waitingroom.StateTurn: 3, waitingroom.StateWaiting: 5}, h.states(people(8)...)); diff != "" {
			t.Fatal(diff)
		}
		d, err := h.rooms.Room(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		d.Capacity = 1
		if _, _, err := h.rooms.Put(t.Context(), d.Definition); err != nil {
			t.Fatal(err)
		}
		for i, want := range []waitingroom.Reason{"", waitingroom.ReasonAtCapacity, waitingroom.ReasonAtCapacity} {
			if _, no, err := h.rooms.Claim(t.Context(), name, user(people(3)[i])); refused(no, err) != want || err != nil {
				t.Errorf("claim %d: %+v, %v, want %q", i, no, err, want)
			}
		}
		h.later(58 * time.Second)
		if _, no, err := h.rooms.Claim(t.Context(), name, user("user-1")); refused(no, err) != waitingroom.ReasonAtCapacity {
			t.Error(no, err)
		}
		h.later(10 * time.Second) // beyond the window, which asking has extended
		if err := h.rooms.Leave(t.Context(), name, user("user-0")); err != nil {
			t.Fatal(err)
		}
		if p, err := outcome(h.rooms.Claim(t.Context(), name, user("user-1"))); err != nil || p.State != waitingroom.StateAdmitted {
			t.Errorf("%+v, %v", p, err)
		}
		if p := h.place("user-2"); p.State != waitingroom.StateLapsed {
			t.Errorf("who did not ask again is %s", p.State)
		}
	})
}

// W10: the rate bounds claims, and silent heads do not lower it.
func TestRate(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.RatePerMin = "", "", 60 })
		var visitors []waitingroom.Visitor // every other one is silent
		for i, who := range people(400) {
			if p := h.joined(who); i%2 == 0 {
				visitors = append(visitors, waitingroom.Visitor{User: who, Token: p.Token})
			}
		}
		claimed := 0
		for second := range 180 {
			h.tick(time.Second)
			for i := 0; i < len(visitors); i++ {
				p, err := h.rooms.Place(t.Context(), name, visitors[i])
				if err != nil {
					t.Fatal(err)
				}
				if p.State == waitingroom.StateWaiting {
					break
				}
				if p.State == waitingroom.StateTurn {
					if _, no, err := h.rooms.Claim(t.Context(), name, visitors[i]); no == nil && err == nil {
						claimed++
						visitors = slices.Delete(visitors, i, i+1)
						i--
					} else if refused(no, err) != waitingroom.ReasonAtCapacity {
						t.Fatal(no, err)
					}
				}
			}
			if second == 119 {
				if claimed > 120 {
					t.Errorf("%d claims in two minutes", claimed)
				}
				claimed = 0
			}
		}
		if claimed > 60 || claimed < 54 {
			t.Errorf("%d claims in the third minute, at a rate of 60 with every other head silent", claimed)
		}
		h.verify()
	})
}

// A process does not know for a moment that an operator has put the start off. Who joins there is drawn, has a receipt, and is told no position
// that the draw would change.
func TestAStartThatIsPutOffElsewhere(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		var later waitingroom.Definition
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Second)
			later = *d
		})
		h.join("early")
		other := h.process()
		if err := other.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		later.StartsAt = later.StartsAt.Add(time.Minute)
		if _, _, err := other.Put(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		if err := other.SetClock(t.Context(), h.at.Add(2*time.Second)); err != nil { // also the database's
			t.Fatal(err)
		}
		if p := h.joined("ann"); p.Receipt == "" || p.Position != 0 {
			t.Errorf("%+v", p)
		}
		if p := h.place("ann"); p.State != waitingroom.StateGathering || p.Position != 0 {
			t.Errorf("%+v", p)
		}
		h.later(2 * time.Minute)
		if s, err := h.rooms.Room(t.Context(), name); err != nil || s.Draw.N != 2 {
			t.Errorf("%d places were drawn, %v", s.Draw.N, err)
		}
	})
}

// An operator changes the mode through another process. Visitors who join before this one has read that are drawn, and see no position that
// the draw would change.
func TestAModeThatIsChangedElsewhere(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		var drawn waitingroom.Definition
		h.open(func(d *waitingroom.Definition) {
			d.StartsAt, d.GatherAt = time.Now().Add(time.Minute), time.Now().Add(-time.Minute)
			drawn = *d
		})
		drawn.Mode = waitingroom.ModeDraw
		stale := h.process()
		if err := stale.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.process().Put(t.Context(), drawn); err != nil {
			t.Fatal(err)
		}
		if p := h.joined("ann"); p.State != waitingroom.StateGathering || p.Receipt == "" {
			t.Errorf("joined: %+v", p)
		}
		if p, err := stale.Place(t.Context(), name, user("ann")); err != nil || p.State != waitingroom.StateGathering || p.Position != 0 ||
			stale.ParseToken(name, p.Token).Seen != 0 {
			t.Errorf("read in another process: %+v, %v", p, err)
		}
		h.later(2 * time.Minute)
		if s, err := h.rooms.Room(t.Context(), name); err != nil || s.Draw == nil || s.Draw.N != 1 {
			t.Errorf("%+v, %v", s.Draw, err)
		}
	})
}

// The database loses the joins that a process has read, and an operator changes the mode of the room, which is empty again.
func TestAModeThatIsChangedAfterLostCommits(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		if h.db == nil {
			return // a memory that loses its last commits is a new one
		}
		var drawn waitingroom.Definition
		h.open(func(d *waitingroom.Definition) {
			d.StartsAt, d.GatherAt = time.Now().Add(time.Minute), time.Now().Add(-time.Minute)
			drawn = *d
		})
		var lanes string
		if err := h.db.QueryRowContext(t.Context(), `SELECT lanes FROM waiting_tails`).Scan(&lanes); err != nil {
			t.Fatal(err)
		}
		h.join("ann", "bob")
		if err := h.rooms.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		h.exec(`DELETE FROM waiting_places`)
		h.exec(`UPDATE waiting_tails SET joined = 0, gathered = 0, lanes = $1`, lanes)
		drawn.Mode = waitingroom.ModeDraw
		if _, _, err := h.process().Put(t.Context(), drawn); err != nil {
			t.Fatal(err)
		}
		if p := h.joined("cem"); p.State != waitingroom.StateGathering || p.Receipt == "" {
			t.Errorf("%+v", p)
		}
	})
}

// Somebody joins after the start, and somebody after the clock was set back to before it: both are drawn, and have receipts. Nobody is added to a
// draw that has taken place.
func TestTheClockIsSetBackBeforeTheDraw(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Second)
		})
		h.jump(2 * time.Second)
		if p := h.joined("late"); p.Receipt != "" {
			t.Errorf("after the start: %+v", p)
		}
		h.jump(-10 * time.Second)
		if p := h.joined("early"); p.Receipt == "" {
			t.Errorf("before the start: %+v", p)
		}
		receipt := h.joined("late").Receipt
		h.later(20 * time.Second)
		if p := h.joined("late"); receipt == "" || p.Receipt != receipt {
			t.Errorf("receipt %q before the draw, then %+v", receipt, p)
		}
		h.jump(-20 * time.Second)
		if p := h.joined("third"); p.Receipt != "" {
			t.Errorf("after the draw: %+v", p)
		}
		h.later(40 * time.Second)
		if s, err := h.rooms.Room(t.Context(), name); err != nil || s.Draw.N != 2 {
			t.Errorf("%d places were drawn, %v", s.Draw.N, err)
		}
		if _, err := h.rooms.Close(t.Context(), name, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		for who, want := range map[string]string{"late": receipt, "third": ""} {
			if p := h.joined(who); p.Receipt != want {
				t.Errorf("%s in a room that has ended: %+v", who, p)
			}
		}
	})
}

// W8, W25 to W28: the draw is among those who joined before the start, and a stranger can check it.
func TestDraw(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Minute)
		})
		h.join(people(50)...)
		p := h.joined("user-7")
		if p.State != waitingroom.StateGathering || p.Position != 0 || p.Receipt == "" {
			t.Errorf("before the draw: %+v", p)
		}
		if _, no, err := h.rooms.Claim(t.Context(), name, user("user-7")); refused(no, err) != waitingroom.ReasonNotYourTurn {
			t.Errorf("claim before the start: %+v, %v", no, err)
		}
		before, err := h.rooms.Room(t.Context(), name)
		if err != nil || before.Draw.Commitment == "" || before.Draw.Secret+before.Draw.Root+before.Draw.Seed != "" {
			t.Errorf("before the draw: %+v, %v", before.Draw, err)
		}
		h.shop.free = 0
		h.jump(time.Minute)
		if p := h.joined("late"); p.State != waitingroom.StateGathering || p.Position != 0 || p.Receipt != "" {
			t.Errorf("who came after the start, before the draw: %+v", p)
		}
		h.later(time.Second)
		taken := map[int64]bool{}
		inOrder := 0
		for i, who := range people(50) {
			p := h.place(who)
			if p.State != waitingroom.StateWaiting || p.Position < 1 || p.Position > 50 || taken[p.Position] {
				t.Errorf("%+v", p)
			}
			taken[p.Position] = true
			if p.Position == int64(i+1) {
				inOrder++
			}
			if elsewhere, err := h.process().Place(t.Context(), name, user(who)); err != nil || elsewhere.Position != p.Position {
				t.Errorf("another process: %+v, %v", elsewhere, err)
			}
		}
		if inOrder > 10 {
			t.Errorf("%d of 50 have the position of their joining", inOrder)
		}
		if p := h.place("late"); p.Position != 51 {
			t.Errorf("who came after the start: %+v", p)
		}
		var list bytes.Buffer
		if err := h.rooms.WriteDraw(t.Context(), name, &list); err != nil {
			t.Fatal(err)
		}
		drawn, err := draw.Verify(bytes.NewReader(list.Bytes()))
		if err != nil || drawn.N != 50 || drawn.Commitment != before.Draw.Commitment {
			t.Errorf("%+v, %v", drawn, err)
		}
		lines := strings.Split(list.String(), "\n")
		lines[10], lines[11] = lines[11], lines[10]
		if _, err := draw.Verify(strings.NewReader(strings.Join(lines, "\n"))); err == nil {
			t.Error("a list with two places swapped passes")
		}
	})
}

// A database that has lost its last commits gives their numbers to others: as many as before, but not the same.
func TestADrawOfOthers(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(time.Minute)
		})
		h.join(people(2)...)
		lose := func() { h.exec(`UPDATE waiting_places SET subject = 'of somebody else' WHERE seq = 3`) }
		if m, ok := h.store.(*inMemory); ok {
			backup := m.Copy()
			lose = func() { m.Restore(backup); h.join("of somebody else") }
		}
		h.join("user-2")
		if err := h.rooms.Refresh(t.Context()); err != nil { // reads the three
			t.Fatal(err)
		}
		lose()
		h.jump(time.Minute)
		h.later(time.Second)
		var list bytes.Buffer
		if err := h.rooms.WriteDraw(t.Context(), name, &list); err != nil {
			t.Fatal(err)
		}
		if drawn, err := draw.Verify(&list); err != nil || drawn.N != 3 {
			t.Errorf("%+v, %v", drawn, err)
		}
	})
}
