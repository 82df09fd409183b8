package bans_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/testenv"
)

var ann = bans.Target{Kind: bans.User, Value: "ann"}

// A book is the bans under one key of a store.
type book struct {
	t     *testing.T
	store bans.Store
	key   string
}

func openBook(t *testing.T, store bans.Store) *book {
	return &book{t, store, namespace() + ":{bans}"}
}

func (b *book) exchange(news bans.News) bans.State {
	b.t.Helper()
	state, err := b.store.Exchange(b.t.Context(), b.key, news)
	if err != nil {
		b.t.Fatal(err)
	}
	return state
}

// put orders a ban and returns the resulting one, or the zero value if there is none.
func (b *book) put(order bans.Order) bans.Ban {
	b.t.Helper()
	return last(b.exchange(bans.News{Put: []bans.Order{order}}), order.Target)
}

// last returns the latest state of a target in a reply.
func last(state bans.State, target bans.Target) (found bans.Ban) {
	for _, ban := range state.Bans {
		if ban.Target == target {
			found = ban
		}
	}
	return found
}

var ignoreChange = cmpopts.IgnoreFields(bans.Ban{}, "Change")

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, ignoreChange, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestBansOfOneTarget(t *testing.T) {
	rule := func(name string, length time.Duration) bans.Order {
		return bans.Order{Target: ann, Rule: name, For: length}
	}
	grow := bans.Order{Target: ann, Rule: "r", For: 10 * time.Minute, Growing: true, AtMost: time.Hour}
	operator := func(length time.Duration) bans.Order {
		return bans.Order{Target: ann, Reason: "said so", For: length}
	}
	const m = time.Minute
	type step struct {
		at    time.Duration
		order bans.Order // For 0: lift
		from  time.Duration
		until time.Duration
		times int
	}
	eachStore(t, func(t *testing.T, open opener) {
		for _, c := range []struct {
			name  string
			steps []step
		}{
			{"grows and is capped", []step{
				{0, grow, 0, 10 * m, 1},
				{10 * m, grow, 10 * m, 30 * m, 2},
				{31 * m, grow, 31 * m, 71 * m, 3},
				{71 * m, grow, 71 * m, 131 * m, 4}, // 80 min would be more than an hour
				{131 * m, grow, 131 * m, 191 * m, 5},
			}},
			{"begins anew after a quiet time", []step{
				{0, grow, 0, 10 * m, 1},
				{70*m - 1*time.Microsecond, grow, 70*m - 1*time.Microsecond, 90*m - 1*time.Microsecond, 2},
				{150 * m, grow, 150 * m, 160 * m, 1}, // an hour after the end
			}},
			{"does not look farther back than its own rule says", []step{
				{0, operator(10 * m), 0, 10 * m, 1}, // remembered for a day
				{70 * m, grow, 70 * m, 80 * m, 1},
			}},
			{"counts also those that do not grow", []step{
				{0, rule("r", m), 0, m, 1},
				{m, rule("r", m), m, 2 * m, 2},
			}},
			{"is not prolonged by what it refuses", []step{
				{0, rule("r", m), 0, m, 1},
				{m / 2, rule("r", m), 0, m, 1},
				{m / 2, rule("r", 10*m), 0, m, 1},
			}},
			{"is never shortened by a rule", []step{
				{0, rule("r", 10*m), 0, 10 * m, 1},
				{m, rule("s", m), 0, 10 * m, 1},
				{m, rule("s", 20*m), m, 21 * m, 1},
			}},
			{"is what an operator says", []step{
				{0, rule("r", 10*m), 0, 10 * m, 1},
				{m, operator(m), m, 2 * m, 1},
				{m, operator(time.Hour), m, 61 * m, 1},
				{2 * m, rule("r", 10*m), m, 61 * m, 1},
			}},
			{"can be lifted, and made again", []step{
				{0, grow, 0, 10 * m, 1},
				{m, bans.Order{}, 0, 0, 1},
				{2 * m, grow, 2 * m, 22 * m, 2}, // lifting a ban does not mean that it was wrong
			}},
			{"is long, but no longer than asked for", []step{
				{0, bans.Order{Target: ann, For: 48 * time.Hour, Growing: true}, 0, 48 * time.Hour, 1},
				{48 * time.Hour, bans.Order{Target: ann, For: 48 * time.Hour, Growing: true}, 48 * time.Hour, 96 * time.Hour, 2},
			}},
		} {
			clk := newClock()
			b := openBook(t, open(clk))
			for i, s := range c.steps {
				clk.At(s.at)
				if s.order.For == 0 {
					state := b.exchange(bans.News{Lift: []bans.Target{ann}})
					if got := last(state, ann); state.Lifted != 1 || got.Until.After(got.Since) {
						t.Errorf("%s, step %d: %d lifted, %+v", c.name, i, state.Lifted, got)
					}
					continue
				}
				got := b.put(s.order)
				if from, until := got.Since.Sub(epoch), got.Until.Sub(epoch); from != s.from || until != s.until || got.Times != s.times {
					t.Errorf("%s, step %d: from %v until %v, %d times, want %v, %v, %d", c.name, i, from, until, got.Times, s.from, s.until, s.times)
				}
			}
		}
	})
}

// A process that has all changes up to a cursor gets every later one exactly once.
func TestChangesOfBans(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		b := openBook(t, open(clk))
		order := func(user string, length time.Duration) bans.Order {
			return bans.Order{Target: bans.Target{Kind: bans.User, Value: user}, Reason: "a: b\tc 🎟️", For: length}
		}
		ban := func(o bans.Order, since, until time.Duration) bans.Ban {
			return bans.Ban{
				Target: o.Target, Reason: o.Reason, Since: epoch.Add(since).Local(), Until: epoch.Add(until).Local(), Times: 1,
			}
		}
		first := b.exchange(bans.News{})
		if first.Origin == "" || !first.At.Equal(epoch) || first.Processes != 1 || len(first.Bans) > 0 || first.More {
			t.Fatalf("nothing is known, and yet %+v", first)
		}
		one, two := order("one", time.Second), order("two", time.Hour)
		b.put(one)
		b.put(two)
		all := b.exchange(bans.News{})
		same(t, "all", all.Bans, []bans.Ban{ban(one, 0, time.Second), ban(two, 0, time.Hour)})
		if all.Bans[0].Change >= all.Bans[1].Change || all.Cursor != all.Bans[1].Change || all.Origin != first.Origin {
			t.Errorf("changes of %+v", all)
		}
		same(t, "none", b.exchange(bans.News{Since: all.Cursor}).Bans, []bans.Ban(nil))

		clk.At(time.Second)
		same(t, "those in force", b.exchange(bans.News{}).Bans, []bans.Ban{ban(two, 0, time.Hour)})
		b.exchange(bans.News{Lift: []bans.Target{two.Target}})
		changes := b.exchange(bans.News{Since: all.Cursor})
		same(t, "the lifted one", changes.Bans, []bans.Ban{ban(two, 0, 0)})
		if state := b.exchange(bans.News{Lift: []bans.Target{two.Target}}); state.Lifted != 0 {
			t.Error("lifted twice")
		}
		same(t, "nothing new", b.exchange(bans.News{Since: changes.Cursor}).Bans, []bans.Ban(nil))
		clk.At(-time.Hour) // the clock stepped back, the numbers do not
		if b.put(order("three", time.Second)).Change <= changes.Cursor {
			t.Error("a change has a number that was given before")
		}
	})
}

// Bans that do not fit into one reply follow in the next.
func TestManyBans(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		const n = 2500
		b := openBook(t, open(newClock()))
		for from := 0; from < n; from += 500 {
			var news bans.News
			for i := from; i < from+500; i++ {
				news.Put = append(news.Put, bans.Order{
					Target: bans.Target{Kind: bans.Device, Value: fmt.Sprint(i)}, For: time.Hour,
				})
			}
			b.exchange(news)
		}
		var cursor int64
		got := map[string]bool{}
		for {
			state := b.exchange(bans.News{Since: cursor})
			for _, ban := range state.Bans {
				got[ban.Value] = true
			}
			if cursor = state.Cursor; !state.More {
				break
			}
		}
		if len(got) != n {
			t.Errorf("%d bans, want %d", len(got), n)
		}
	})
}

func TestRestoredBans(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		b := openBook(t, open(clk))
		target := func(user string) bans.Target {
			return bans.Target{Kind: bans.User, Value: user}
		}
		ban := func(user string, until time.Duration) bans.Ban {
			return bans.Ban{
				Target: target(user), Rule: "r", Reason: "why", Since: epoch.Add(-time.Hour).Local(), Until: epoch.Add(until).Local(), Times: 3,
			}
		}
		known := b.put(bans.Order{Target: target("known"), For: time.Minute})
		b.put(bans.Order{Target: target("lifted"), For: time.Minute})
		b.exchange(bans.News{Lift: []bans.Target{target("lifted"), target("unknown")}})
		b.exchange(bans.News{Restore: []bans.Ban{
			ban("known", time.Hour), ban("lifted", time.Hour), ban("unknown", time.Hour), ban("over", 0), ban("new", time.Hour),
		}})
		state := b.exchange(bans.News{})
		inForce := map[string]bans.Ban{}
		for _, b := range state.Bans {
			if b.Until.After(b.Since) {
				inForce[b.Value] = b
			}
		}
		same(t, "in force", inForce, map[string]bans.Ban{"known": known, "new": ban("new", time.Hour)})

		clk.At(2 * time.Hour)
		again := b.put(bans.Order{Target: target("new"), For: time.Minute, Growing: true})
		if again.Times != 4 || again.Until.Sub(again.Since) != 8*time.Minute {
			t.Errorf("the one after a restored third ban: %+v", again)
		}
	})
}

func TestBansAreTold(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		b := openBook(t, open(clk))
		made := b.put(bans.Order{Target: ann, Rule: "r", For: time.Hour})
		b.put(bans.Order{Target: ann, Rule: "r", For: time.Hour}) // stands already
		clk.At(time.Second)
		b.exchange(bans.News{Lift: []bans.Target{ann}})
		if state := b.exchange(bans.News{}); len(state.Events) != 0 {
			t.Errorf("events for a process that did not ask: %+v", state.Events)
		}
		events := b.exchange(bans.News{History: true}).Events
		same(t, "events", events, []bans.Event{
			{ID: events[0].ID, At: epoch.Local(), Ban: made},
			{ID: events[1].ID, At: epoch.Add(time.Second).Local(), Ban: made, Lifted: true},
		})
		if events[0].ID == events[1].ID {
			t.Error("two events have one id")
		}
		same(t, "told again", b.exchange(bans.News{History: true}).Events, events)
		logged := []string{events[0].ID, "", "another-1"}
		same(t, "not told again", b.exchange(bans.News{History: true, Logged: logged}).Events, events[1:])

		var many bans.News
		for i := range 300 {
			target := bans.Target{Kind: bans.User, Value: fmt.Sprint(i)}
			many.Put = append(many.Put, bans.Order{Target: target, For: time.Hour})
		}
		b.exchange(many)
		if n := len(b.exchange(bans.News{History: true}).Events); n != 100 {
			t.Errorf("%d events at once, want 100", n)
		}
	})
}

func TestProcessesAlive(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		b := openBook(t, open(clk))
		for _, s := range []struct {
			at      time.Duration
			process string
			want    int
		}{
			{0, "", 1},
			{0, "one", 1},
			{0, "two", 2},
			{5 * time.Second, "one", 2},
			{14999 * ms, "one", 2},
			{15 * time.Second, "one", 1},
			{30 * time.Second, "", 1},
			{-time.Hour, "three", 1},
		} {
			clk.At(s.at)
			if got := b.exchange(bans.News{Process: s.process}).Processes; got != s.want {
				t.Errorf("%d processes after %v, want %d", got, s.at, s.want)
			}
		}
	})
}

// A full store accepts no more bans from any source; expired ones make room.
func TestBansAreBounded(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		store := open(clk)
		store.(interface{ SetMax(int) }).SetMax(2)
		b := openBook(t, store)
		order := func(user string, length time.Duration) bans.Order {
			return bans.Order{Target: bans.Target{Kind: bans.User, Value: user}, For: length, AtMost: length}
		}
		b.put(order("a", time.Minute))
		b.put(order("b", time.Hour))
		restored := bans.Ban{Target: ann, Since: epoch, Until: epoch.Add(time.Hour)}
		b.exchange(bans.News{Restore: []bans.Ban{restored}, Lift: []bans.Target{{Kind: bans.User, Value: "x"}}})
		if got := b.put(order("c", time.Hour)); got != (bans.Ban{}) {
			t.Errorf("a third target was banned: %+v", got)
		}
		if got := b.put(order("b", 2*time.Hour)); got.Until.Sub(epoch) != 2*time.Hour {
			t.Errorf("a known target was not banned: %+v", got)
		}
		if n := len(b.exchange(bans.News{}).Bans); n != 2 {
			t.Errorf("%d bans, want 2", n)
		}
		clk.At(time.Minute)
		if got := b.put(order("c", time.Hour)); got.Value != "c" {
			t.Errorf("a ban that is over makes no room")
		}
	})
}

func TestAnExchangeEndsWithItsContext(t *testing.T) {
	store := bans.NewRedisStore(dial(t, silent(t)))
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, err := store.Exchange(ctx, "k", bans.News{})
		asked <- err
	}()
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

// Asking for the state of a ban changes nothing, and the caller is not counted as a process.
func TestAskForBans(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		b := openBook(t, open(newClock()))
		r := bans.NewReader(b.store, strings.TrimSuffix(b.key, ":{bans}"))
		find := func() (bans.Ban, time.Time) {
			t.Helper()
			ban, at, ok, err := r.Find(t.Context(), ann)
			if err != nil || ok != (ban != bans.Ban{}) {
				t.Fatal(ban, ok, err)
			}
			return ban, at
		}
		if ban, at := find(); ban.Times != 0 || at.IsZero() {
			t.Errorf("before it: %v at %v", ban, at)
		}
		put := b.put(bans.Order{Target: ann, For: time.Minute})
		b.put(bans.Order{Target: bans.Target{Kind: bans.User, Value: "bob"}, For: time.Minute})
		if ban, _ := find(); ban != put || ban.Lifted() {
			t.Errorf("%+v, want %+v", ban, put)
		}
		all, next, more, err := r.Changed(t.Context(), 0)
		if err != nil || len(all) != 2 || more || next != all[1].Change {
			t.Errorf("%v, up to %d, %t, %v", all, next, more, err)
		}
		b.exchange(bans.News{Lift: []bans.Target{ann}})
		if ban, _ := find(); !ban.Lifted() {
			t.Errorf("lifted: %+v", ban)
		}
		if later, _, _, err := r.Changed(t.Context(), next); err != nil || len(later) != 1 || !later[0].Lifted() {
			t.Errorf("since then: %v, %v", later, err)
		}
		if state := b.exchange(bans.News{Process: "p"}); state.Processes != 1 {
			t.Errorf("%d processes", state.Processes)
		}
	})
}

func TestNoBanWithoutATTL(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	b := &book{t, bans.NewRedisStore(rdb), ns + ":{bans}"}
	b.exchange(bans.News{Process: "p"})
	b.put(bans.Order{Target: ann, For: time.Hour})
	b.exchange(bans.News{Lift: []bans.Target{{Kind: bans.User, Value: "bob"}}, Process: "p"})
	ends := map[string]time.Duration{ // at most
		"state": 7*24*time.Hour + time.Second, "known": 25*time.Hour + time.Second, "changes": 25*time.Hour + time.Second,
		"ends": 25*time.Hour + time.Second, "events": 7 * 24 * time.Hour, "alive": 15 * time.Second,
	}
	keys := 0
	for scan := rdb.Scan(t.Context(), 0, ns+":*", 1000).Iterator(); scan.Next(t.Context()); keys++ {
		ttl, err := rdb.PTTL(t.Context(), scan.Val()).Result()
		if err != nil || ttl <= 0 || ttl > ends[strings.TrimPrefix(scan.Val(), ns+":{bans}:")] {
			t.Errorf("key %q ends after %v, %v", scan.Val(), ttl, err)
		}
	}
	if keys != len(ends) {
		t.Errorf("%d keys, want %d", keys, len(ends))
	}
}

// full reports that a ban which does not fit was not made.
func TestAFullStoreSaysSo(t *testing.T) {
	store := memory(nil)
	store.SetMax(1)
	g := newList(store)
	ban(t, g, "user", "ann", time.Hour)
	_, err := g.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: "user", Value: "bob"}, For: time.Hour})
	if errors.Is(err, bans.ErrUnavailable) || !errors.Is(err, bans.ErrFull) { // repeating it does not help
		t.Errorf("one more ban: %v", err)
	}
}
