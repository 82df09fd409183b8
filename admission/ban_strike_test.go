package admission_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/bans"
)

// The third refusal within a minute bans for ten minutes, the next time for twenty.
const strikes = `
- name: r
  subject: caller
  limit: 1
  window: 1m
  on_exceed: {action: ban, after: 3, within: 1m, for: 10m, growing: true, at_most: 24h}
`

// Every store bans at exactly the third refusal, and a banned caller makes no further calls to it.
func TestStrikesBan(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		store := &watched{Store: open(nil)}
		g := gate(t, store, namespace(), strikes)
		ann, bob := admission.Request{User: "ann"}, admission.Request{IP: netip.MustParseAddr("2001:db8::1")}
		for i, want := range []rules.Action{rules.Allow, rules.Deny, rules.Deny, rules.Ban} {
			check(t, g, ann) // to look is no strike
			d := charge(t, g, ann)
			if d.Action != want {
				t.Fatalf("request %d: %+v, want %s", i, d, want)
			}
			if want != rules.Ban {
				continue
			}
			if d.Reason != admission.Banned || d.Rule != "r" || d.RetryAfter != 10*time.Minute || d.Admitted {
				t.Errorf("the ban: %+v", d)
			}
		}
		store.asked()
		for range 100 {
			d := charge(t, g, ann)
			if d.Action != rules.Ban || d.RetryAfter > 10*time.Minute || d.RetryAfter < 9*time.Minute {
				t.Fatalf("while banned: %+v", d)
			}
		}
		if n := store.asked(); n != 0 {
			t.Errorf("the store was asked %d times about who is banned", n)
		}
		if d := charge(t, g, bob); !d.Admitted {
			t.Errorf("somebody else: %+v", d)
		}
		all := g.Bans()
		if len(all) != 1 || all[0].Rule != "r" || all[0].Kind != bans.User || all[0].Value != "ann" || all[0].Times != 1 {
			t.Errorf("bans: %+v", all)
		}
		// Refusals by the ban were no strikes: after it three more are needed, and the ban is the second one.
		if !lift(t, g, bans.User, "ann") {
			t.Fatal("there was nothing to lift")
		}
		for i, want := range []rules.Action{rules.Deny, rules.Deny, rules.Ban} {
			d := charge(t, g, ann)
			if d.Action != want || want == rules.Ban && d.RetryAfter != 20*time.Minute {
				t.Errorf("request %d after the ban was lifted: %+v, want %s", i, d, want)
			}
		}
	})
}

// Refusals that never reached the store bring a ban as well, within a second.
func TestStrikesWithoutTheStoreBan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, strikes)
		other := quickGate(t, store, strikes)
		defer running(t, g)()
		defer running(t, other)()
		req := admission.Request{IP: netip.MustParseAddr("2001:db8::1")}
		for range 10 {
			if isBanned(t, g, req) {
				t.Fatal("banned before the store could count")
			}
		}
		time.Sleep(flushes + 50*ms)
		synctest.Wait()
		same := admission.Request{IP: netip.MustParseAddr("2001:db8::2")} // in the same /64
		if !isBanned(t, g, same) || !isBanned(t, other, same) {
			t.Errorf("not banned after ten refusals: %+v", g.Bans())
		}
		lift(t, g, bans.IP, "2001:db8::1")
		time.Sleep(50 * ms)
		for _, g := range []*admission.Gate{g, other} {
			if isBanned(t, g, same) {
				t.Error("still banned after it was lifted")
			}
		}
	})
}

// A deafStore does not answer what is new about bans.
type deafStore struct {
	store.Store
	deaf bool
	asks int
}

func (s *deafStore) Bans() bans.Store { return deafBans{s.Store.Bans(), s} }

type deafBans struct {
	bans.Store
	of *deafStore
}

func (s deafBans) Exchange(ctx context.Context, key string, news bans.News) (bans.State, error) {
	if s.of.asks++; s.of.deaf {
		<-ctx.Done()
		return bans.State{}, errors.New("deaf")
	}
	return s.Store.Exchange(ctx, key, news)
}

// A ban that could not be made in time leaves a plain refusal within the deadline, and is made by a later sync.
func TestABanThatHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deafStore{Store: memorystore.New(memorystore.Options{}), deaf: true}
		g, err := admission.NewWithStore(store, parse(t, strikes), admission.Options{Secret: secret, DenyCache: -1})
		if err != nil {
			t.Fatal(err)
		}
		req := admission.Request{User: "ann"}
		for range 3 {
			charge(t, g, req)
		}
		start := time.Now()
		if d := charge(t, g, req); d.Action != rules.Deny || d.RetryAfter > time.Minute || time.Since(start) > 150*ms {
			t.Errorf("after %v: %+v", time.Since(start), d)
		}
		store.deaf = false
		if syncBans(t, g); !isBanned(t, g, req) {
			t.Error("the ban was forgotten")
		}
	})
}

// A name that no ban can have is refused, and not banned.
func TestWhoCannotBeBannedIsRefused(t *testing.T) {
	g := gate(t, memorystore.New(memorystore.Options{}), "ns", strikes)
	loopback := admission.Request{IP: netip.MustParseAddr("127.0.0.1")}
	for range 10 {
		if isBanned(t, g, loopback) {
			t.Errorf("banned %+v", loopback)
		}
	}
	for _, name := range []string{"a\nb", "a\x00", "\xff", "a\u200bb", "a\u034f", "a\ufe0f", "\u3164", "\u2800", strings.Repeat("é", 256)} {
		for field, req := range map[string]admission.Request{"User": {User: name}, "Device": {Device: name}, "Session": {Session: name}} {
			if d, err := g.Charge(t.Context(), req); !errors.Is(err, admission.ErrInvalidRequest) || !strings.Contains(err.Error(), field) {
				t.Errorf("%s %q: %+v, %v", field, name, d, err)
			}
		}
		if _, err := bans.ParseTarget("user", name); !errors.Is(err, bans.ErrInvalid) {
			t.Errorf("a ban of %q: %v", name, err)
		}
	}
}
