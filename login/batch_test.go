package login

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/testenv"
)

func realStore(t *testing.T) *RedisStore {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return NewRedisStore(rdb)
}

// A request that was sent again while it waited is counted once.
func TestRequestTwiceInOneScript(t *testing.T) {
	store := realStore(t)
	rs := newRuleSet(builtIn(), time.Hour)
	keys, err := newKeyring(uuid.NewString(), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	c := call{rules: rs, op: opReserve, record: keys.record("q", keys.hash("1"))}
	c.keys, c.name = keys.keys(keys.name("alice"), netip.MustParseAddr("192.0.2.1"), "", Password)
	first, again := c, c
	calls := []*asked{{In: &first}, {In: &again}}
	store.run(t.Context(), calls)
	for i, a := range calls {
		if a.Err != nil || a.Out.action != allow || a.Out.known != (i == 1) || a.Out.at != calls[0].Out.at {
			t.Errorf("answer %d: %+v, %v", i+1, a.Out, a.Err)
		}
	}
	states, _, err := store.look(t.Context(), c.keys)
	if err != nil || len(states[byName].units) != 1 || len(states[byIP].units) != 1 {
		t.Errorf("%+v, %+v, %v", states[byName], states[byIP], err)
	}
}

// Attempts that nobody settles are failures, even if the next one comes much later: a token is worth five guesses.
func TestAbandonedAttemptsRevokeAToken(t *testing.T) {
	now := time.Now().UnixMicro()
	memory := NewMemoryStore()
	memory.now = func() int64 { return now }
	rs := newRuleSet(builtIn(), time.Hour)
	keys, err := newKeyring(uuid.NewString(), make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		c := call{rules: rs, op: opReserve}
		c.keys, c.name = keys.keys(keys.name("alice"), netip.MustParseAddr("192.0.2.1"), "token", Password)
		re, err := memory.do(t.Context(), &c)
		if err != nil || re.device != (i < 5) {
			t.Errorf("attempt %d: %+v, %v", i+1, re, err)
		}
		now += 10 * 60 * second
	}
}

// Calls that share a script meet what those before them left, as if each had come alone.
func TestCallsOfOneScript(t *testing.T) {
	store := realStore(t)
	rs := newRuleSet(builtIn(), time.Hour)
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Now().UnixMicro()
		store.now = func() int64 { return now }
		memory := NewMemoryStore()
		memory.now = store.now
		keys, err := newKeyring(uuid.NewString(), make([]byte, 32))
		if err != nil {
			rt.Fatal(err)
		}
		var reserved []*call // to be settled
		for script := range rapid.IntRange(1, 6).Draw(rt, "scripts") {
			// Redis ends the records of settlements by its own clock, two minutes after them.
			reserved = slices.DeleteFunc(reserved, func(c *call) bool { return c.at < now-60*second })
			var simple, others []*asked
			for range rapid.IntRange(1, 12).Draw(rt, "calls") {
				c := &call{rules: rs, op: rapid.SampledFrom([]op{opReserve, opReserve, opReserve, opCheck, opReport, opSettle, opSettle}).Draw(rt, "op")}
				ip := netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}).Draw(rt, "ip"))
				name := keys.name(rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(rt, "name"))
				device := rapid.SampledFrom([]string{"", "", "phone"}).Draw(rt, "device")
				c.keys, c.name = keys.keys(name, ip, device, Password)
				if c.op == opSettle {
					if len(reserved) == 0 {
						continue
					}
					*c = *rapid.SampledFrom(reserved).Draw(rt, "reserved")
					c.op, c.result = opSettle, rapid.SampledFrom([]byte{'s', 'f', 'f', 'e'}).Draw(rt, "result")
				} else if id := rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(rt, "id"); id != "" {
					c.record = keys.record("q", keys.hash(id, fmt.Sprint(c.op, script), name.String(), ip.String(), device)) // Redis ends records by its own clock
				}
				if a := (&asked{In: c}); c.simple() {
					simple = append(simple, a)
				} else {
					others = append(others, a)
				}
			}
			left := store.runWelcome(t.Context(), rs, simple)
			inOrder := make([]*asked, 0, len(simple)+len(others))
			for _, a := range simple {
				if !slices.Contains(left, a) {
					inOrder = append(inOrder, a)
				}
			}
			others = append(others, left...)
			store.runRules(t.Context(), rs, others)
			for _, a := range append(inOrder, others...) {
				want, err := memory.do(t.Context(), a.In)
				if err != nil || a.Err != nil {
					rt.Fatal(err, a.Err)
				}
				got := a.Out
				if a.In.op == opSettle { // which has no evaluation
					want, got = reply{outcome: want.outcome, penalties: want.penalties}, reply{outcome: got.outcome, penalties: got.penalties}
				}
				if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
					rt.Fatalf("%+v: redis differs from memory:\n%s", *a.In, diff)
				}
				if a.In.op == opReserve && a.Out.action == allow && !a.Out.known {
					settle := *a.In
					settle.at, settle.device, settle.record = a.Out.at, a.Out.device, keys.record("o", keys.hash(uuid.NewString()))
					reserved = append(reserved, &settle)
				}
			}
			now += rapid.Int64Range(0, 40*second).Draw(rt, "later")
		}
	})
}
