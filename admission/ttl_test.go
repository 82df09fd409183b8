package admission_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/testenv"
)

// Every way in which a counter is kept: together they write all kinds of keys.
const everyKindOfKey = `
- {name: log, subject: user, algorithm: sliding_log, limit: 4, window: 10m, count_rejected: true}
- {name: places, subject: user, algorithm: sliding_log, limit: 2000, window: 10m, count_rejected: true}
- {name: counter, subject: user, algorithm: sliding_counter, limit: 4, window: 10m, count_rejected: true}
- {name: first, subject: user, algorithm: fixed_window, limit: 4, window: 10m, count_rejected: true}
- {name: calendar, subject: user, limit: 4, window: hour, count_rejected: true}
- {name: rate, subject: user, algorithm: gcra, limit: 4, window: 10m, count_rejected: true}
- {name: stages, subject: user, algorithm: base, limit: 2, window: 10m, base: {limit: 2, window: hour}, count_rejected: true}
- {name: ban, subject: user, algorithm: sliding_log, limit: 2, window: 10m, on_exceed: {action: ban, after: 20, within: 10m, for: 1m}}
- {name: device, subject: device, limit: 2, window: 10m}
`

// The forms of keys, as keys.go has them, after the namespace.
var keyForms = map[string]*regexp.Regexp{
	"window":          regexp.MustCompile(`^:w:\{[\w-]{22}\}:[\w-]{8}$`),
	"base":            regexp.MustCompile(`^:w:\{[\w-]{22}\}:[\w-]{8}:b$`),
	"strikes":         regexp.MustCompile(`^:w:\{[\w-]{22}\}:[\w-]{8}:s$`),
	"answers":         regexp.MustCompile(`^:q:\{[\w-]{22}\}$`),
	"earlier answers": regexp.MustCompile(`^:q:\{[\w-]{22}\}:old$`),
	"bans":            regexp.MustCompile(`^:\{bans\}:(state|known|changes|ends|events|alive)$`),
}

// P4: whatever is done, no key is ever without an end, nor has one of a form that a caller could choose.
func TestPitfall_P04_NoKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	for _, server := range []struct {
		name string
		dial func() redis.UniversalClient
	}{
		{"redis", func() redis.UniversalClient { return dial(t, testenv.Redis(t)) }},
		{"cluster", func() redis.UniversalClient { return dial(t, cluster(t)) }},
	} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			k := &keyWatch{T: t, rdb: server.dial(), ns: namespace(), seen: map[string]bool{}}
			clk := newClock()
			redisStore := redisstore.New(k.rdb)
			redisStore.SetClock(clk.Now)
			st := &watched{Store: redisStore}
			g := gate(t, st, k.ns, everyKindOfKey)
			ann := admission.Request{User: "ann", Device: strings.Repeat("{}:🎟", 60)}
			withID := func(id string) admission.Request { req := ann; req.ID = id; return req }
			sent := func() store.Call { // the last call
				st.mu.Lock()
				defer st.mu.Unlock()
				call := st.calls[len(st.calls)-1]
				call.Tallies, call.Room = slices.Clone(call.Tallies), nil
				return call
			}

			// Rounds far apart: the later ones meet states that have ended, and write over them.
			for round := range 3 {
				name := func(phase string) string { return fmt.Sprintf("%s, round %d", phase, round) }
				before := charge(t, g, ann)
				if !before.Admitted {
					t.Fatalf("round %d: %+v", round, before)
				}
				k.all(name("a charge"))
				charge(t, g, withID("twice"+strconv.Itoa(round)))
				charge(t, g, withID("twice"+strconv.Itoa(round)))
				k.all(name("a resend"))
				if err := g.Refund(t.Context(), before); err != nil {
					t.Error(err)
				}
				k.all(name("a refund by stamp"))
				if _, err := g.RefundRequest(t.Context(), withID("twice"+strconv.Itoa(round))); err != nil {
					t.Error(err)
				}
				k.all(name("a refund by ID"))
				for range 6 { // the device is full after two: on a cluster its slot comes after the user's
					charge(t, g, ann)
				}
				k.all(name("refusals"))
				reject := sent()
				reject.Mode = store.Reject
				for i := range reject.Tallies {
					reject.Tallies[i].Refusals, reject.Tallies[i].Cost = 1, 3
				}
				if _, err := st.Decide(t.Context(), reject); err != nil {
					t.Error(err)
				}
				k.all(name("refusals without the store"))
				check(t, g, ann)
				k.all(name("a look"))
				for range 3 {
					if err := g.Add(t.Context(), ann); err != nil {
						t.Error(err)
					}
				}
				k.all(name("additions to what is full"))
				if err := g.Erase(t.Context(), ann, map[string]int{"log": 1, "places": 1, "device": 1}); err != nil {
					t.Error(err)
				}
				k.all(name("an erasure"))
				bob := admission.Request{User: "bob" + strconv.Itoa(round), Cost: 1 + 2*round} // of whom nothing is counted yet
				if err := g.Add(t.Context(), bob); err != nil {
					t.Error(err)
				}
				k.all(name("an addition"))
				clk.Advance(2 * time.Hour)
			}
			for i := range 20 { // nine answers to each: more than one hash takes
				charge(t, g, withID(strconv.Itoa(i)))
			}
			k.all("many answers")
			for i := 0; charge(t, g, ann).Action != rules.Ban; i++ {
				if i > 100 {
					t.Fatal("no ban")
				}
			}
			k.all("a ban")
			if _, err := g.Reset(t.Context(), ann, ""); err != nil {
				t.Error(err)
			}
			k.all("a reset")
			for form := range keyForms {
				if !k.seen[form] {
					t.Errorf("no key of the %s was written", form)
				}
			}
		})
	}
}

// A keyWatch looks at all keys of a namespace.
type keyWatch struct {
	*testing.T
	rdb  redis.UniversalClient
	ns   string
	seen map[string]bool // forms
}

// longestTTL is that of the ban's events.
const longestTTL = 7*24*time.Hour + 2*time.Second

// all fails the test for every key without a TTL or in another form. after describes the step before.
func (k *keyWatch) all(after string) {
	k.Helper()
	var mu sync.Mutex
	keys := 0
	look := func(ctx context.Context, rdb redis.UniversalClient) error {
		for scan := rdb.Scan(ctx, 0, k.ns+":*", 1000).Iterator(); scan.Next(ctx); {
			ttl, err := rdb.PTTL(ctx, scan.Val()).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			keys++
			if ttl <= 0 || ttl > longestTTL {
				k.Errorf("after %s: key %q ends in %v", after, scan.Val(), ttl)
			}
			form := k.form(scan.Val())
			if k.seen[form] = true; form == "" {
				k.Errorf("after %s: key %q has another form", after, scan.Val())
			}
			mu.Unlock()
		}
		return nil
	}
	var err error
	if masters, ok := k.rdb.(*redis.ClusterClient); ok {
		err = masters.ForEachMaster(k.Context(), func(ctx context.Context, master *redis.Client) error { return look(ctx, master) })
	} else {
		err = look(k.Context(), k.rdb)
	}
	if err != nil || keys == 0 {
		k.Fatalf("after %s: %d keys, %v", after, keys, err)
	}
}

func (k *keyWatch) form(key string) string {
	for name, form := range keyForms {
		if form.MatchString(strings.TrimPrefix(key, k.ns)) {
			return name
		}
	}
	return ""
}
