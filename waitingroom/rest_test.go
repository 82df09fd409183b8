package waitingroom_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/waitingroom"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// counted is a store that counts what is asked of it.
type counted struct {
	waitingroom.Store

	setClock                 func(at time.Time)
	rows, gone, transactions atomic.Int64
}

func (c *counted) SetClock(at time.Time) { c.setClock(at) }

func (c *counted) Rooms(ctx context.Context, names ...string) ([]store.Room, error) {
	all, err := c.Store.Rooms(ctx, names...)
	c.rows.Add(int64(len(all)))
	return all, err
}

func (c *counted) Gone(ctx context.Context, room string, since, rt int64, done bool) ([]*store.Place, error) {
	c.gone.Add(1)
	return c.Store.Gone(ctx, room, since, rt, done)
}

func (c *counted) InTx(ctx context.Context, fn func(store.Tx) error) error {
	c.transactions.Add(1)
	return c.Store.InTx(ctx, fn)
}

func (c *counted) reset() {
	c.rows.Store(0)
	c.gone.Store(0)
	c.transactions.Store(0)
}

func (c *counted) String() string {
	return fmt.Sprintf("%d transactions, %d rooms were read, and %d lists of places", c.transactions.Load(), c.rows.Load(), c.gone.Load())
}

// count counts what the house asks of its store from now on.
func (h *house) count() *counted {
	below := h.process()
	c := &counted{Store: h.store, setClock: func(at time.Time) {
		if err := below.SetClock(h.Context(), at); err != nil {
			h.Fatal(err)
		}
	}}
	h.store = c
	return c
}

// alone makes a room without a sale beside the one of the house.
func (h *house) alone(room string) {
	h.Helper()
	d := h.status().Definition
	d.Room, d.Sale, d.Item, d.Capacity = room, "", "", 5
	if _, _, err := h.rooms.Put(h.Context(), d); err != nil {
		h.Fatal(err)
	}
}

// rest lets the rooms rest: their stock has been read, and no visitor has asked for them for a minute.
func (h *house) rest() {
	h.Helper()
	h.tick(time.Second)
	h.tick(time.Minute)
	h.tick(time.Second)
}

// listed returns a room as operators see it in the list, which keeps no room from resting.
func (h *house) listed(room string) waitingroom.Status {
	h.Helper()
	all, err := h.rooms.Rooms(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	for i := range all {
		if all[i].Room == room {
			return all[i]
		}
	}
	h.Fatalf("%s is not among %d rooms", room, len(all))
	return waitingroom.Status{}
}

// isSQLite reports whether the house is over SQLite, which shows no changes of rows, so that all rooms are read.
func (h *house) isSQLite() bool { return strings.HasSuffix(h.Name(), "/sqlite") }

const lookEvery = 10 * time.Second

// Rooms at rest cost no transaction, whatever their number, also while another room is busy; their stock is read now and then.
func TestRoomsAtRestCostNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		c := h.count()
		h.open(func(*waitingroom.Definition) {})
		const others = 20
		for i := range others {
			h.alone(fmt.Sprint("quiet-", i))
		}
		h.alone("busy")
		if _, err := outcome(h.rooms.Join(t.Context(), "quiet-0", user("ann"), 1)); err != nil { // who leaves, and long ago
			t.Fatal(err)
		}
		if err := h.rooms.Leave(t.Context(), "quiet-0", user("ann")); err != nil {
			t.Fatal(err)
		}
		h.rest()
		c.reset()
		h.shop.looks = 0
		const rounds = 100
		for range rounds {
			h.tick(300 * time.Millisecond)
		}
		t.Logf("at rest: %v, %d looks", c, h.shop.looks)
		if c.transactions.Load() != 0 || h.shop.looks < 2 || h.shop.looks > 4 {
			t.Errorf("in 30 s: %v, %d looks at the stock of one room", c, h.shop.looks)
		}
		if !h.isSQLite() && (c.rows.Load() != 0 || c.gone.Load() != 0) {
			t.Error(c)
		}
		for i := range 6 { // no other visitor can have a turn
			if _, err := outcome(h.rooms.Join(t.Context(), "busy", user(fmt.Sprint("user-", i)), 1)); err != nil {
				t.Fatal(err)
			}
		}
		h.tick(time.Second)
		c.reset()
		for range rounds {
			h.tick(300 * time.Millisecond)
		}
		t.Logf("one is busy: %v", c)
		if c.transactions.Load() > rounds {
			t.Errorf("beside a busy room, in %d rounds: %v", rounds, c)
		}
		if !h.isSQLite() && (c.rows.Load() > 2*rounds || c.gone.Load() > 2*rounds) {
			t.Errorf("beside a busy room, in %d rounds: %v", rounds, c)
		}
	})
}

// Whoever is the first in a room at rest gets a turn in the next round, in whatever process the visitor joins.
func TestTheFirstVisitorOfARoomAtRest(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.rest()
		h.rooms.Woken()
		h.join("ann")
		if !h.rooms.Woken() {
			t.Error("a join does not wake Run")
		}
		h.tick(0)
		if p := h.place("ann"); p.State != waitingroom.StateTurn {
			t.Errorf("after a round: %+v", p)
		}
		h.later(4 * time.Minute) // the turn lapses
		h.rest()
		calls := 0
		other := waitingroom.New(h.store, waitingroom.Options{
			Secret: secret, Stock: h.shop, Logger: slog.New(slog.DiscardHandler), Changed: func() { calls++ },
		})
		if err := other.SetClock(t.Context(), h.at); err != nil {
			t.Fatal(err)
		}
		if _, err := outcome(other.Join(t.Context(), name, user("bob"), 1)); err != nil {
			t.Fatal(err)
		}
		if calls != 1 {
			t.Errorf("a join in a room at rest notifies the other processes %d times", calls)
		}
		if err := h.rooms.Turn(t.Context()); err != nil { // of the process that did not take the join
			t.Fatal(err)
		}
		if p, err := other.Place(t.Context(), name, user("bob")); err != nil || p.State != waitingroom.StateTurn {
			t.Errorf("after a round of another process: %+v, %v", p, err)
		}
		h.verify()
	})
}

// What becomes of a sale is shown in a room at rest some seconds later, and at once where somebody looks.
func TestARoomAtRestFollowsItsSale(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.rest()
		shown := func(what string, is func(s waitingroom.Status) bool) {
			t.Helper()
			for range lookEvery/time.Second + 1 {
				h.tick(time.Second)
			}
			if s := h.listed(name); !is(s) {
				t.Errorf("%s is not shown: %s, %d free, %q", what, s.Phase, *s.Free, s.Message)
			}
		}
		phase := func(p waitingroom.Phase) func(waitingroom.Status) bool {
			return func(s waitingroom.Status) bool { return s.Phase == p }
		}
		h.shop.set(waitingroom.SalePaused)
		shown("a pause", phase(waitingroom.PhaseHeld))
		h.shop.set(waitingroom.SaleOpen)
		shown("the end of a pause", phase(waitingroom.PhaseServing))
		h.shop.add(7)
		shown("more stock", func(s waitingroom.Status) bool { return *s.Free == 1007 })
		h.shop.away = true
		shown("a loss of the stock", phase(waitingroom.PhaseRecovering))
		h.shop.away = false
		shown("its return", phase(waitingroom.PhaseServing))

		h.status() // somebody looks
		h.shop.set(waitingroom.SalePaused)
		h.tick(time.Second)
		if s := h.listed(name); s.Phase != waitingroom.PhaseHeld {
			t.Errorf("a second after somebody looked: %s", s.Phase)
		}
		h.shop.set(waitingroom.SaleOpen)
		h.rest()
		h.shop.set(waitingroom.SaleEnded)
		shown("the end of the sale", phase(waitingroom.PhaseClosed))
	})
}

// A room that is sold out and paid ends while it rests.
func TestARoomAtRestEnds(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.shop.free, h.shop.final, h.shop.unsettled = 0, true, true
		h.open(func(*waitingroom.Definition) {})
		h.rest()
		h.tick(lookEvery)
		if s := h.listed(name); s.Phase != waitingroom.PhaseServing {
			t.Errorf("while an order is not paid: %s", s.Phase)
		}
		h.shop.unsettled = false
		h.tick(lookEvery)
		if s := h.listed(name); s.Phase != waitingroom.PhaseExhausted {
			t.Errorf("sold and paid: %s", s.Phase)
		}
	})
}

// A draw comes at its start, also if no visitor takes part or looks.
func TestADrawEndsARest(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.Mode, d.StartsAt = waitingroom.ModeDraw, time.Now().Add(10*time.Minute)
		})
		h.rest()
		starts := h.listed(name).StartsAt
		h.tick(starts.Sub(h.at) - time.Second)
		if s := h.listed(name); s.Phase != waitingroom.PhaseGathering {
			t.Errorf("a second before the start: %s", s.Phase)
		}
		h.tick(time.Second)
		if s := h.listed(name); s.Phase != waitingroom.PhaseServing || s.Draw.Seed == "" {
			t.Errorf("at the start: %s, %+v", s.Phase, s.Draw)
		}
	})
}

// A rest saves up no turns, and takes no time from the turns after it.
func TestARestSavesNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) { d.RatePerMin = 600 })
		h.rest()
		for range 10 {
			h.tick(6 * time.Minute)
		}
		h.join(people(60)...)
		h.tick(0)
		if turns := h.states(people(60)...)[waitingroom.StateTurn]; turns < 1 || turns > 21 {
			t.Errorf("%d turns at once after an hour, at ten a second", turns)
		}
		if left := h.place("user-0").TurnUntil.Sub(h.at).Round(time.Second); left != time.Minute {
			t.Errorf("the turn lasts %v", left)
		}
		h.later(58 * time.Second)
		if p := h.place("user-0"); p.State != waitingroom.StateTurn {
			t.Errorf("two seconds before its end it is %s", p.State)
		}
		h.later(4 * time.Second)
		if p := h.place("user-0"); p.State != waitingroom.StateLapsed {
			t.Errorf("after its end it is %s", p.State)
		}
	})
}

// A room rests only after the last pass is over and what became of it is known.
func TestARoomWithAPassDoesNotRest(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(*waitingroom.Definition) {})
		h.join("ann", "bob")
		h.tick(time.Second)
		for _, who := range []string{"ann", "bob"} {
			if _, err := outcome(h.rooms.Claim(t.Context(), name, user(who))); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			h.tick(time.Second)
		}
		h.shop.order("ann")
		for range 20 {
			h.tick(time.Second)
		}
		if _, err := h.rooms.Rooms(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, places := h.rows()
		if places[0].DoneAt == 0 || places[1].LapsedAt == 0 {
			t.Errorf("after the end of the passes: %+v and %+v", places[0], places[1])
		}
	})
}

// A copy that is kept up to date by reading what has changed is the same as a new one.
func TestACopyIsAsGoodAsANewOne(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.open(func(d *waitingroom.Definition) {
			d.RatePerMin, d.Lanes = 600, []waitingroom.Lane{{Name: "members", Share: 1}, {Name: "all", Share: 2}}
		})
		h.rest()
		copied := h.process()
		by := waitingroom.Cause{Actor: "ann"}
		put := func(change func(d *waitingroom.Definition)) func() error {
			return func() error {
				d := h.status().Definition
				change(&d)
				_, _, err := h.rooms.Put(t.Context(), d)
				return err
			}
		}
		verb := func(do func(context.Context, string, waitingroom.Cause) (waitingroom.Status, error)) func() error {
			return func() error { _, err := do(t.Context(), name, by); return err }
		}
		join := func(who, lane string) func() error {
			return func() error {
				_, err := outcome(h.rooms.Join(t.Context(), name, waitingroom.Visitor{User: who, Lane: lane}, 1))
				return err
			}
		}
		nothing := func() error { return nil }
		for i, step := range []struct {
			what string
			do   func() error
			by   time.Duration
		}{
			{"nothing", nothing, time.Second},
			{"another title", put(func(d *waitingroom.Definition) { d.Page.Title = "Shoes" }), 0},
			{"another claim window", put(func(d *waitingroom.Definition) { d.ClaimWindow = 2 * time.Minute }), 0},
			{"hold", verb(h.rooms.Hold), 0},
			{"resume", verb(h.rooms.Resume), 0},
			{"a message", func() error { _, err := h.rooms.SetMessage(t.Context(), name, "Soon.", by); return err }, 0},
			{"a rate", func() error { _, err := h.rooms.SetRate(t.Context(), name, 1200, by); return err }, 0},
			{"another share", put(func(d *waitingroom.Definition) { d.Lanes[0].Share = 3 }), 0},
			{"a join", join("ann", "members"), 0},
			{"a second join", join("bob", "all"), 0},
			{"a leave", func() error { return h.rooms.Leave(t.Context(), name, user("bob")) }, 0},
			{"a turn", nothing, time.Second},
			{"a claim", func() error { _, err := outcome(h.rooms.Claim(t.Context(), name, user("ann"))); return err }, 0},
			{"a pass given up", func() error { return h.rooms.Leave(t.Context(), name, user("ann")) }, 0},
			{"a later join", join("cem", "all"), 0},
			{"a pause", func() error { h.shop.set(waitingroom.SalePaused); return nil }, time.Second},
			{"close", verb(h.rooms.Close), 0},
		} {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			if step.by > 0 {
				h.tick(step.by)
			}
			fresh := h.process()
			var of [2]waitingroom.Status
			for n, s := range []*waitingroom.Service{copied, fresh} {
				err := s.SetClock(t.Context(), h.at)
				if err == nil {
					of[n], err = s.Room(t.Context(), name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(of[1], of[0]); diff != "" {
				t.Errorf("after step %d, %s, a new copy (-) and an older one (+) differ:\n%s", i, step.what, diff)
			}
			if copied.GivenUp(name) != fresh.GivenUp(name) {
				t.Errorf("after step %d, %s: %d and %d passes were given up", i, step.what, copied.GivenUp(name), fresh.GivenUp(name))
			}
		}
	})
}
