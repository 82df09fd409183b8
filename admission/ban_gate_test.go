package admission_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/testenv"
)

const noRules = "- {name: session, subject: session, limit: 1000, window: 1m}"

func ban(t testing.TB, g *admission.Gate, kind bans.Kind, value string, length time.Duration) bans.Ban {
	t.Helper()
	b, err := g.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: kind, Value: value}, Reason: "test", For: length})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lift(t testing.TB, g *admission.Gate, kind bans.Kind, value string) bool {
	t.Helper()
	ok, err := g.Lift(t.Context(), bans.Target{Kind: kind, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func syncBans(t testing.TB, gates ...*admission.Gate) {
	t.Helper()
	for _, g := range gates {
		if err := g.SyncBans(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func isBanned(t testing.TB, g *admission.Gate, req admission.Request) bool {
	t.Helper()
	d, err := g.Charge(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return d.Action == rules.Ban
}

func TestBannedCallers(t *testing.T) {
	ip := func(s string) admission.Request { return admission.Request{IP: netip.MustParseAddr(s)} }
	for _, c := range []struct {
		kind  bans.Kind
		value string
		req   admission.Request
		want  bool
	}{
		{"user", "ann", admission.Request{User: "ann"}, true},
		{"user", "ann", admission.Request{User: "Ann"}, false},
		{"user", "ann", admission.Request{Device: "ann"}, false},
		{"device", "ann", admission.Request{User: "bob", Device: "ann"}, true},
		{"device", "ann", admission.Request{User: "ann"}, false},
		{"ip", "192.0.2.1", ip("192.0.2.1"), true},
		{"ip", "192.0.2.1", ip("::ffff:192.0.2.1"), true},
		{"ip", "::ffff:192.0.2.1", ip("192.0.2.1"), true},
		{"ip", "192.0.2.1", ip("192.0.2.2"), false},
		{"ip", "2001:db8:1:2::1", ip("2001:db8:1:2:ffff::9"), true},
		{"ip", "2001:db8:1:2::1", ip("2001:db8:1:3::1"), false},
		{"ip", "fe80::1%eth0", ip("fe80::2%eth1"), true},
		{"network", "203.0.113.77/24", ip("203.0.113.1"), true},
		{"network", "203.0.113.77/24", ip("::ffff:203.0.113.1"), true},
		{"network", "::ffff:203.0.113.0/120", ip("203.0.113.1"), true},
		{"network", "203.0.113.0/24", ip("203.0.114.1"), false},
		{"network", "10.0.0.0/8", ip("10.255.255.255"), true},
		{"network", "203.0.113.9/32", ip("203.0.113.9"), true},
		{"network", "203.0.113.9/32", ip("203.0.113.8"), false},
		{"network", "2001:db8::/48", ip("2001:db8:0:ffff::1"), true},
		{"network", "2001:db8::/48", ip("2001:db8:1::1"), false},
		{"network", "2001:db8:1:2::/64", ip("2001:db8:1:2::9"), true},
		{"network", "2001::/16", ip("2001:ffff::9"), true},
		{"network", "2001::/16", ip("203.0.113.9"), false},
		{"network", "203.0.113.0/24", admission.Request{User: "ann"}, false},
	} {
		g := quickGate(t, memorystore.New(memorystore.Options{}), noRules)
		b := ban(t, g, c.kind, c.value, time.Hour)
		if got := isBanned(t, g, c.req); got != c.want {
			t.Errorf("%s %s against %+v: banned %v, want %v", c.kind, c.value, c.req, got, c.want)
		}
		if !lift(t, g, c.kind, b.Value) || isBanned(t, g, c.req) || len(g.Bans()) != 0 {
			t.Errorf("%s %s was not lifted", c.kind, c.value)
		}
	}
}

func TestWhatCannotBeBanned(t *testing.T) {
	g := quickGate(t, memorystore.New(memorystore.Options{}), noRules)
	for _, c := range []struct {
		order bans.Order
		want  error
	}{
		{bans.Order{Target: ann}, bans.ErrInvalid},
		{bans.Order{Target: ann, For: time.Microsecond}, bans.ErrInvalid},
		{bans.Order{Target: ann, For: 11 * 366 * 24 * time.Hour}, bans.ErrInvalid},
		{bans.Order{Target: ann, For: time.Hour, AtMost: -1}, bans.ErrInvalid},
		{bans.Order{Target: ann, For: time.Hour, Reason: "a\nb"}, bans.ErrInvalid},
		{bans.Order{Target: ann, For: time.Hour, Reason: strings.Repeat("r", 256)}, bans.ErrInvalid},
		{bans.Order{For: time.Hour}, bans.ErrInvalid},
		{bans.Order{Target: bans.Target{Kind: "ip", Value: "127.1.2.3"}, For: time.Hour}, bans.ErrRefused},
		{bans.Order{Target: bans.Target{Kind: "ip", Value: "::1"}, For: time.Hour}, bans.ErrRefused},
		{bans.Order{Target: bans.Target{Kind: "network", Value: "127.0.0.0/8"}, For: time.Hour}, bans.ErrRefused},
		{bans.Order{Target: bans.Target{Kind: "network", Value: "::/16"}, For: time.Hour}, bans.ErrRefused},
	} {
		if _, err := g.Ban(t.Context(), c.order); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.order, err, c.want)
		}
	}
	if all := g.Bans(); len(all) != 0 {
		t.Errorf("banned: %+v", all)
	}
	if _, err := g.Lift(t.Context(), bans.Target{Kind: "planet", Value: "mars"}); !errors.Is(err, bans.ErrInvalid) {
		t.Errorf("lifted from a planet: %v", err)
	}
	if lift(t, g, "user", "ann") {
		t.Error("lifted a ban that there was not")
	}
}

// A ban expires, and of several the longest counts. Requests in between make no call to the store.
func TestABanEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, "- {name: r, subject: user, limit: 1000, window: 1m}")
		req := admission.Request{User: "ann", Device: "phone", IP: netip.MustParseAddr("203.0.113.9")}
		ban(t, g, "user", "ann", time.Minute)
		ban(t, g, "network", "203.0.113.0/24", time.Hour)
		ban(t, g, "device", "phone", time.Second)
		time.Sleep(10 * time.Minute)
		d, err := g.Check(t.Context(), req)
		if err != nil || d.Admitted || d.Reason != admission.Banned || d.Action != rules.Ban || d.RetryAfter != 50*time.Minute ||
			d.ResetAfter != 50*time.Minute || d.Limit != rules.Unlimited || d.Degraded || d.Version == "" {
			t.Errorf("after 10 minutes: %+v, %v", d, err)
		}
		if bans := g.Bans(); len(bans) != 1 || bans[0].Value != "203.0.113.0/24" || bans[0].Reason != "test" {
			t.Errorf("bans: %+v", bans)
		}
		if n := g.Stats().Bans; n != 3 {
			t.Errorf("%d bans held before a sync, want 3", n)
		}
		if syncBans(t, g); g.Stats().Bans != 1 {
			t.Errorf("%d bans held after a sync, want 1", g.Stats().Bans)
		}
		time.Sleep(50*time.Minute - time.Nanosecond)
		if store.asked() != 0 || !isBanned(t, g, req) {
			t.Error("let in before the end")
		}
		time.Sleep(time.Nanosecond)
		if isBanned(t, g, req) || store.asked() != 1 {
			t.Error("banned after the end")
		}
		if syncBans(t, g); g.Stats().Bans != 0 {
			t.Error("held after the end")
		}
	})
}

// A ban by one process reaches another at once, without waiting for the next sync.
func TestAnotherProcessHearsOfBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, noRules)
		other := quickGate(t, store, noRules)
		ban(t, g, "device", "phone", time.Hour)
		defer running(t, other)()
		synctest.Wait()
		if !isBanned(t, other, admission.Request{Device: "phone"}) {
			t.Error("a new process does not know the bans in force")
		}
		start := time.Now()
		for range 3 {
			ban(t, g, "user", "ann", time.Hour)
			soon := func() { time.Sleep(20 * ms); synctest.Wait() }
			if soon(); !isBanned(t, other, admission.Request{User: "ann"}) {
				t.Error("let in by the other process")
			}
			lift(t, g, "user", "ann")
			if soon(); isBanned(t, other, admission.Request{User: "ann"}) {
				t.Error("kept out by the other process")
			}
		}
		if time.Since(start) > time.Second {
			t.Error("this took until the next sync")
		}
	})
}

func TestAnotherProcessHearsOfBansThroughRedis(t *testing.T) {
	for _, kind := range kinds[1:] {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			open, ns := kind.open(t), namespace()
			g, other := gate(t, open(nil), ns, noRules), gate(t, open(nil), ns, noRules)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			t.Cleanup(wg.Wait)
			t.Cleanup(cancel)
			wg.Go(func() { _ = other.Run(ctx) })
			for range 3 {
				ban(t, g, "user", "ann", time.Hour)
				await(t, "a ban in the other process", func() bool { return isBanned(t, other, admission.Request{User: "ann"}) })
				if !lift(t, g, "user", "ann") {
					t.Error("there was nothing to lift")
				}
				await(t, "no ban in the other process", func() bool { return !isBanned(t, other, admission.Request{User: "ann"}) })
			}
			if n := other.Stats().Processes; n != 2 {
				t.Errorf("%d processes, want 2", n)
			}
		})
	}
}

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !so() {
		if ctx.Err() != nil {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// After Redis has lost its data, the process that holds a ban restores it for Redis and the other processes.
func TestBansOutliveRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	rdb, ns := dial(t, server.URL()), namespace()
	one, two := gate(t, redisstore.New(rdb), ns, noRules), gate(t, redisstore.New(rdb), ns, noRules)
	ban(t, one, "user", "lifted", time.Hour)
	made := ban(t, one, "user", "ann", time.Hour)
	syncBans(t, two)
	const many = 1200 // more than fit into one question or answer
	for i := range many {
		ban(t, one, "device", fmt.Sprint(i), time.Hour)
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if !isBanned(t, one, admission.Request{User: "ann"}) {
		t.Error("banned no more, since Redis forgot")
	}
	if !lift(t, two, "user", "lifted") {
		t.Error("what Redis has forgotten cannot be lifted")
	}
	syncBans(t, one)
	three := gate(t, redisstore.New(rdb), ns, noRules)
	syncBans(t, one, two, three)
	for i, g := range []*admission.Gate{one, two, three} {
		if n := len(g.Bans()); n != many+1 {
			t.Errorf("process %d knows %d bans, want %d", i, n, many+1)
		}
		if isBanned(t, g, admission.Request{User: "lifted"}) {
			t.Errorf("process %d restored what was lifted", i)
		}
	}
	for _, b := range three.Bans() {
		if b.Target != ann {
			continue
		}
		if b.Until.Sub(made.Until).Abs() > time.Second || !b.Since.Equal(made.Since) || b.Reason != "test" || b.Times != 1 {
			t.Errorf("restored %+v, want %+v", b, made)
		}
	}
	if !lift(t, three, "user", "ann") {
		t.Error("what was restored cannot be lifted")
	}
	syncBans(t, one, two)
	for i, g := range []*admission.Gate{one, two, three} {
		if isBanned(t, g, admission.Request{User: "ann"}) {
			t.Errorf("process %d does not know that the ban was lifted", i)
		}
	}
}

// While the store is unavailable the known bans stay in force.
func TestBansWithoutTheStore(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	g := gate(t, redisstore.New(dial(t, server.URL())), namespace(), noRules)
	ban(t, g, "user", "ann", time.Hour)
	server.Kill()
	if err := g.SyncBans(t.Context()); err == nil {
		t.Error("a sync without Redis")
	}
	d, err := g.Charge(t.Context(), admission.Request{User: "ann"})
	if err != nil || d.Action != rules.Ban || d.Degraded {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := g.Ban(t.Context(), bans.Order{Target: ann, For: time.Hour}); !errors.Is(err, bans.ErrUnavailable) {
		t.Errorf("Ban: %v", err)
	}
	if _, err := g.Lift(t.Context(), ann); !errors.Is(err, bans.ErrUnavailable) {
		t.Errorf("Lift: %v", err)
	}
	if !isBanned(t, g, admission.Request{User: "ann"}) {
		t.Error("a lift that failed here had an effect here")
	}
}

func TestExplainTellsOfTheBan(t *testing.T) {
	g := quickGate(t, memorystore.New(memorystore.Options{}), noRules)
	made := ban(t, g, "user", "ann", time.Hour)
	e, err := g.Explain(t.Context(), admission.Request{User: "ann"})
	if err != nil || e.Ban == nil || *e.Ban != made {
		t.Errorf("%+v, %v, want %+v", e, err, made)
	}
	if e, err = g.Explain(t.Context(), admission.Request{User: "bob"}); err != nil || e.Ban != nil {
		t.Errorf("%+v, %v, want no ban", e, err)
	}
}

// Banned allocates nothing, with or without bans.
func TestBansAllocateNothing(t *testing.T) {
	g := quickGate(t, memorystore.New(memorystore.Options{}), "- {name: nobody, subject: session, limit: 1, window: 1m}")
	req := admission.Request{User: "ann", Device: "phone", IP: netip.MustParseAddr("2001:db8::1")}
	look := func() {
		if _, _, ok := g.Banned(req); ok {
			t.Fatal("banned")
		}
	}
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations without bans", n)
	}
	for i := range 100 {
		ban(t, g, "user", fmt.Sprint(i), time.Hour)
		ban(t, g, "network", fmt.Sprintf("2001:%d::/%d", i+1, 33+i%30), time.Hour)
	}
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations beside 200 bans", n)
	}
}
