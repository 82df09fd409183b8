package waitingroom_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

// byToken is somebody who has a place's token, for whom a server asks.
func byToken(p waitingroom.Place) waitingroom.Visitor {
	return waitingroom.ByToken(p.Token, "", true)
}

// standAlone opens a room without a sale, with a capacity.
func (h *house) standAlone(capacity int) {
	h.Helper()
	h.open(func(d *waitingroom.Definition) { d.Sale, d.Item, d.Capacity = "", "", capacity })
}

// TestFinishFreesTheCapacity: a place that is done makes room at once, and its visitor may join again, at the end.
func TestFinishFreesTheCapacity(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(1)
		h.join("ann", "bob")
		if _, no, err := h.rooms.Finish(t.Context(), name, user("ann")); refused(no, err) != waitingroom.ReasonNotYourTurn {
			t.Errorf("who waits: %+v, %v", no, err)
		}
		h.later(2 * time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		h.later(2 * time.Second)
		if n, err := h.rooms.ForDialects().Active(t.Context(), name); n != 1 || err != nil || h.place("bob").State != waitingroom.StateWaiting {
			t.Errorf("%d active, %v, bob is %s", n, err, h.place("bob").State)
		}
		for range 2 {
			if p, err := outcome(h.rooms.Finish(t.Context(), name, user("ann"))); p.State != waitingroom.StateDone || err != nil {
				t.Errorf("%s, %v", p.State, err)
			}
		}
		if n, err := h.rooms.ForDialects().Active(t.Context(), name); n != 0 || err != nil {
			t.Errorf("%d active, %v", n, err)
		}
		h.later(2 * time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("bob"))); err != nil {
			t.Errorf("bob: %v", err)
		}
		if p := h.joined("ann"); p.Number != 3 || p.State != waitingroom.StateWaiting {
			t.Errorf("again: %+v", p)
		}
		h.later(2 * time.Minute) // bob's pass is over
		if _, no, err := h.rooms.Finish(t.Context(), name, user("bob")); refused(no, err) != waitingroom.ReasonTurnLapsed {
			t.Errorf("after the pass: %+v, %v", no, err)
		}
		if _, err := outcome(h.rooms.Finish(t.Context(), name, user("cid"))); !errors.Is(err, waitingroom.ErrNotJoined) {
			t.Errorf("a stranger: %v", err)
		}
		expired, err := h.rooms.ForDialects().Expired(t.Context(), name, 10)
		if err != nil || len(expired) != 2 || expired[0].User != "bob" || expired[1].User != "ann" || expired[0].Token == "" {
			t.Errorf("%+v, %v", expired, err)
		}
		if few, err := h.rooms.ForDialects().Expired(t.Context(), name, 1); len(few) != 1 || err != nil {
			t.Errorf("%+v, %v", few, err)
		}
	})
}

// TestFinishNeedsNoSale: in a room of a sale an order ends a place.
func TestFinishNeedsNoSale(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		h.later(2 * time.Second)
		if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
			t.Fatal(err)
		}
		if _, err := outcome(h.rooms.Finish(t.Context(), name, user("ann"))); !errors.Is(err, waitingroom.ErrConflict) {
			t.Error(err)
		}
		if s := h.place("ann").State; s != waitingroom.StateAdmitted {
			t.Error(s)
		}
	})
}

// TestByToken: a token finds its own place only, also one that was replaced, and no place of another user or room.
func TestByToken(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.standAlone(5)
		first := h.joined("ann")
		if p, err := h.rooms.Place(t.Context(), name, byToken(first)); p.Number != 1 || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		h.join("bob")
		for _, who := range []waitingroom.Visitor{
			waitingroom.ByToken(first.Token, "bob", false),
			waitingroom.ByToken(first.Token, "", false),
			waitingroom.ByToken("", "", false),
			waitingroom.ByToken("x", "", false),
			waitingroom.ByToken("", "ann", false),
			waitingroom.ByToken("x", "", true),
		} {
			if _, err := h.rooms.Place(t.Context(), name, who); !errors.Is(err, waitingroom.ErrNotJoined) {
				t.Errorf("%+v: %v", who, err)
			}
			if _, err := outcome(h.rooms.Claim(t.Context(), name, who)); !errors.Is(err, waitingroom.ErrNotJoined) {
				t.Errorf("%+v: %v", who, err)
			}
			if err := h.rooms.Leave(t.Context(), name, who); !errors.Is(err, waitingroom.ErrNotJoined) {
				t.Errorf("%+v: %v", who, err)
			}
		}
		if err := h.rooms.Leave(t.Context(), name, byToken(first)); err != nil {
			t.Fatal(err)
		}
		second := h.joined("ann")
		h.later(2 * time.Second)
		if p, err := h.rooms.Place(t.Context(), name, byToken(first)); p.Number != 1 || p.State != waitingroom.StateLeft || err != nil {
			t.Errorf("the first: %+v, %v", p, err)
		}
		if _, no, err := h.rooms.Claim(t.Context(), name, byToken(first)); refused(no, err) != waitingroom.ReasonTurnLapsed {
			t.Errorf("the first: %+v, %v", no, err)
		}
		if err := h.rooms.Leave(t.Context(), name, byToken(first)); err != nil {
			t.Error(err)
		}
		if p, err := outcome(h.rooms.Claim(t.Context(), name, byToken(second))); p.State != waitingroom.StateAdmitted || err != nil {
			t.Errorf("the second: %+v, %v", p, err)
		}
	})
}

// A repeated Leave needs neither the room's lock nor a write.
func TestARepeatedLeaveWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann")
		for range 3 {
			if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
				t.Error(err)
			}
			h.breaks("UPDATE", "no statement", memory.Op.Writes)
		}
	})
}

// A Leave that breaks off between the stock, which has taken the pass back, and the database has left nothing half done after the next tick:
// the place has left, and its unit goes to the next. Repeated, before the tick or after it, it succeeds, and the visitor may join again.
func TestALeaveThatBreaksOff(t *testing.T) {
	for what, repeated := range map[string]bool{"repeated": true, "not repeated": false} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.shop.free = 1
				h.open(func(*waitingroom.Definition) {})
				h.join("ann", "bob")
				h.later(time.Second)
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
					t.Fatal(err)
				}
				h.breaks("SET left_at", "SET no_such_column", func(op memory.Op) bool { return op == "Leave" })
				if err := h.rooms.Leave(t.Context(), name, user("ann")); !errors.Is(err, waitingroom.ErrUnavailable) {
					t.Errorf("without the database: %v", err)
				}
				if admitted, _ := h.shop.order("ann"); admitted {
					t.Error("the pass is valid after it was revoked")
				}
				h.jump(0) // the statement is as before
				if repeated {
					if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
						t.Error(err)
					}
				}
				h.later(2 * time.Second)
				if ann, bob := h.place("ann").State, h.place("bob").State; ann != waitingroom.StateLeft || bob != waitingroom.StateTurn {
					t.Errorf("ann is %s, bob is %s", ann, bob)
				}
				if err := h.rooms.Leave(t.Context(), name, user("ann")); err != nil {
					t.Error(err)
				}
				if p := h.joined("ann"); p.Number != 3 || p.State != waitingroom.StateWaiting {
					t.Errorf("again: %+v", p)
				}
			})
		})
	}
}

// Many who leave at once all leave, except who has ordered or cannot be asked about, and their units go to others.
func TestManyLeaveAtOnce(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 60
		h.open(func(*waitingroom.Definition) {})
		h.join(people(100)...)
		h.later(time.Second)
		for _, who := range people(20) {
			if _, err := outcome(h.rooms.Claim(t.Context(), name, user(who))); err != nil {
				t.Fatal(err)
			}
		}
		h.shop.order("user-0")
		h.shop.deaf = "user-1"
		var leaving sync.WaitGroup
		for _, who := range people(90) {
			leaving.Go(func() {
				if err := h.rooms.Leave(t.Context(), name, user(who)); (err != nil) != (who == h.shop.deaf) {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
		leaving.Wait()
		h.later(time.Second)
		want := map[waitingroom.State]int{waitingroom.StateDone: 1, waitingroom.StateAdmitted: 1, waitingroom.StateLeft: 88, waitingroom.StateTurn: 10}
		if diff := cmp.Diff(want, h.states(people(100)...)); diff != "" {
			t.Error(diff)
		}
		if admitted, _ := h.shop.order("user-2"); admitted {
			t.Error("who left may order")
		}
	})
}

// A place that is done costs the ticks nothing for the rest of its pass, however long that is.
func TestDonePlacesAreNotCounted(t *testing.T) {
	for what, sale := range map[string]bool{"order": true, "finish": false} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, h *house) {
				h.open(func(d *waitingroom.Definition) {
					if d.PassLifetime = time.Hour; !sale {
						d.Sale, d.Item, d.Capacity = "", "", 5
					}
				})
				h.join("ann", "bob")
				h.later(time.Second)
				if _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); err != nil {
					t.Fatal(err)
				}
				if sale {
					h.shop.order("ann")
				} else if _, err := outcome(h.rooms.Finish(t.Context(), name, user("ann"))); err != nil {
					t.Fatal(err)
				}
				h.later(30 * time.Second)
				if pace, err := h.rooms.Pace(t.Context(), name); err != nil || pace.Admitted != 1 {
					t.Errorf("%+v, %v", pace, err)
				}
				h.later(2 * time.Minute)
				rooms, _ := h.rows()
				counted, err := h.store.CountAdmitted(t.Context(), name, h.at.Add(-65*time.Second).UnixMilli()-rooms[0].Saved.StoppedMS, 0)
				if err != nil {
					t.Fatal(err)
				}
				if s := h.place("ann").State; counted != 0 || s != waitingroom.StateDone {
					t.Errorf("%d places are counted, ann is %s", counted, s)
				}
			})
		})
	}
}

// Who left before the draw is told so with the token, also after it, while the cursor is elsewhere.
func TestLeftBeforeTheDraw(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt, d.Sale, d.Item, d.RatePerMin = waitingroom.ModeDraw, time.Now().Add(time.Minute), "", "", 60
		})
		tokens, left := make(map[string]string), make(map[string]bool)
		for _, who := range people(20) {
			tokens[who] = h.joined(who).Token
		}
		leave := func(who string) {
			t.Helper()
			if err := h.rooms.Leave(t.Context(), name, user(who)); err != nil {
				t.Fatal(err)
			}
			left[who] = true
		}
		for _, who := range people(8) {
			leave(who)
		}
		h.later(45 * time.Second) // a refresh asks for those of the last seconds only
		for _, next := range []string{"user-8", "user-9", "user-10"} {
			h.later(8 * time.Second)
			for who, token := range tokens {
				p, err := h.rooms.Place(t.Context(), name, waitingroom.Visitor{User: who, Token: token})
				if (p.State == waitingroom.StateLeft) != left[who] || err != nil {
					t.Errorf("%s is %s, %v", who, p.State, err)
				}
			}
			leave(next) // a refresh then removes those that the cursor has passed
		}
	})
}

// Who left long ago is not taken off those who wait once more when the cursor passes the place.
func TestWaitingDoesNotCountWhoLeft(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.Sale, d.Item = "", "" })
		h.join(people(10)...)
		for _, who := range people(3) {
			if err := h.rooms.Leave(t.Context(), name, user(who)); err != nil {
				t.Fatal(err)
			}
		}
		h.tick(time.Second)
		if s := h.status(); s.Waiting != 7 {
			t.Errorf("%d wait after three left", s.Waiting)
		}
		h.later(20 * time.Second)
		if _, err := h.rooms.Advance(t.Context(), name, 2, waitingroom.Cause{}); err != nil {
			t.Fatal(err)
		}
		h.later(4 * time.Second)
		if s := h.status(); s.Served != 5 || s.Waiting != 5 {
			t.Errorf("%d wait, the cursor is at %d", s.Waiting, s.Served)
		}
	})
}

// Nobody waits behind places that were given up before the draw: they count neither before it nor after it.
func TestPlacesGivenUpBeforeTheDraw(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free = 20
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt, d.RatePerMin = waitingroom.ModeDraw, time.Now().Add(time.Minute), 60
		})
		h.join(people(100)...)
		leave := func(who ...string) {
			t.Helper()
			var leaving errgroup.Group // each waits for the next batch
			for _, who := range who {
				leaving.Go(func() error { return h.rooms.Leave(t.Context(), name, user(who)) })
			}
			if err := leaving.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		stay := people(15)
		h.later(2 * time.Second)
		if p := h.place(stay[0]); p.Outlook != waitingroom.OutlookUnlikely {
			t.Errorf("one of 100 for 20 units: %+v", p)
		}
		leave(people(100)[15:]...)
		h.later(2 * time.Second)
		if p := h.place(stay[0]); p.Outlook != waitingroom.OutlookLikely {
			t.Errorf("one of 15 for 20 units: %+v", p)
		}
		h.jump(time.Minute)
		h.later(time.Second)
		here, fresh := h.rooms, h.process()
		if err := fresh.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		waits := func(want int) {
			t.Helper()
			for _, s := range []*waitingroom.Service{here, fresh} {
				if err := s.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				ahead := map[int64]bool{}
				for _, who := range stay {
					p, err := s.Place(t.Context(), name, user(who))
					if err != nil {
						t.Fatal(err)
					}
					if p.State != waitingroom.StateWaiting {
						continue
					}
					if ahead[p.Ahead] || p.Ahead >= int64(want) || p.Outlook == waitingroom.OutlookUnlikely {
						t.Errorf("%d of %d ahead: %+v", p.Ahead, want, p)
					}
					ahead[p.Ahead] = true
				}
				if len(ahead) < want-1 {
					t.Errorf("%d wait, want %d", len(ahead), want)
				}
			}
		}
		turned := h.states(stay...)[waitingroom.StateTurn]
		waits(15 - turned)
		h.later(3 * time.Second)
		waits(15 - h.states(stay...)[waitingroom.StateTurn])
	})
}
