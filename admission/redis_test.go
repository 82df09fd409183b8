package admission_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestEveryKeyEnds(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	g := gate(t, admission.NewRedisStore(rdb), ns, `
- {name: a, subject: user, windows: [{limit: 2, window: 10s}, {limit: 5, window: 1m}]}
- {name: b, subject: [user, device], limit: 100, window: 1h, shadow: true}
`)
	for range 4 { // the third and fourth are denied
		charge(t, g, admission.Request{User: "ann", Device: strings.Repeat("{}\n\x00🎟️", 1000)})
	}
	var keys int
	for scan := rdb.Scan(t.Context(), 0, ns+":*", 1000).Iterator(); scan.Next(t.Context()); keys++ {
		ttl, err := rdb.PTTL(t.Context(), scan.Val()).Result()
		if err != nil || ttl <= 0 || ttl > time.Hour+time.Second {
			t.Errorf("key %q ends after %v, %v", scan.Val(), ttl, err)
		}
		if len(scan.Val()) != len(ns)+len(":w:{}:")+22+8 {
			t.Errorf("key %q is too long", scan.Val())
		}
	}
	if keys != 3 {
		t.Errorf("%d keys, want 3", keys)
	}
}

// A log that nobody empties would grow: what has left the window leaves it with the next admission.
func TestExpiredUnitsLeaveTheList(t *testing.T) {
	t.Parallel()
	rdb, ns, clk := dial(t, testenv.Redis(t)), namespace(), newClock()
	store := admission.NewRedisStore(rdb)
	store.SetClock(clk.Now)
	g := gate(t, store, ns, "- {name: a, subject: user, limit: 10, window: 10s}")
	for i := range 50 {
		clk.At(time.Duration(i) * 1500 * ms)
		charge(t, g, admission.Request{User: "ann"})
	}
	keys, _, err := rdb.Scan(t.Context(), 0, ns+":*", 100_000).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	if n := rdb.StrLen(t.Context(), keys[0]).Val() / 8; n != 7 {
		t.Errorf("%d units kept, want the 7 of the last 10 s", n)
	}
}

// Times are Redis' own, to the µs; here it runs on the same machine.
func TestRedisKeepsTheTime(t *testing.T) {
	t.Parallel()
	rdb, ns := dial(t, testenv.Redis(t)), namespace()
	g := gate(t, admission.NewRedisStore(rdb), ns, "- {name: a, subject: user, limit: 10, window: 10m}")
	before := time.Now()
	charge(t, g, admission.Request{User: "ann"})
	charge(t, g, admission.Request{User: "ann"})
	after := time.Now()
	keys, _, err := rdb.Scan(t.Context(), 0, ns+":*", 100_000).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	log, err := rdb.Get(t.Context(), keys[0]).Bytes()
	if err != nil || len(log) != 16 {
		t.Fatalf("log %x, %v", log, err)
	}
	units := []int64{int64(binary.BigEndian.Uint64(log)), int64(binary.BigEndian.Uint64(log[8:]))}
	if units[0] < before.UnixMicro() || units[1] <= units[0] || units[1] > after.UnixMicro() {
		t.Errorf("units at %v, want two times from %d to %d", units, before.UnixMicro(), after.UnixMicro())
	}
}

func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.StartRedis(t).URL())
	for name, client := range map[string]admission.Client{"plain": rdb, "auto-pipelined": pipelined(t, rdb)} {
		t.Run(name, func(t *testing.T) {
			g := gate(t, admission.NewRedisStore(client), namespace(), "- {name: r, subject: user, limit: 1000, window: 5m}")
			for round := range 3 {
				if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if d, err := g.Charge(t.Context(), admission.Request{User: "ann"}); err != nil || d.Degraded {
							t.Errorf("Charge = %+v, %v", d, err)
						}
					})
				}
				wg.Wait()
				if d := check(t, g, admission.Request{User: "ann"}); d.Remaining != 1000-50*(round+1) {
					t.Errorf("round %d: %d units left", round, d.Remaining)
				}
			}
		})
	}
}

func TestRedisOptions(t *testing.T) {
	for _, c := range []struct {
		url   string
		addrs string
		tls   bool
		err   bool
	}{
		{"redis://localhost", "localhost:6379", false, false},
		{"redis://user:word@db:7000/3", "db:7000", false, false},
		{"rediss://db:7000", "db:7000", true, false},
		{"redis://a:1,b:2,c:3", "a:1 b:2 c:3", false, false},
		{"rediss://a:1,rediss://b:2", "a:1 b:2", true, false},
		{"redis://a:1/2,b:2", "", false, true},
		{"redis://a:1,,b:2", "", false, true},
		{"http://a", "", false, true},
		{"", "", false, true},
	} {
		opts, err := admission.RedisOptions(c.url)
		if (err != nil) != c.err {
			t.Errorf("%q: %v", c.url, err)
		}
		if err != nil {
			continue
		}
		if got := strings.Join(opts.Addrs, " "); got != c.addrs || (opts.TLSConfig != nil) != c.tls {
			t.Errorf("%q: addresses %s, TLS %v", c.url, got, opts.TLSConfig != nil)
		}
		if opts.MaxRetries != -1 || opts.DialerRetries != 1 || !opts.ContextTimeoutEnabled || opts.ReadTimeout > 100*ms {
			t.Errorf("%q: not the settings of a decision: %+v", c.url, opts)
		}
	}
}

// A failover that both servers agree on changes no answer: it is waited for.
func TestAFailoverInMidFlight(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartFailoverCluster(t)
	rdb := dial(t, "redis://"+strings.Join(cluster.Addrs, ","))
	const subjects, each, limit = 60, 40, 25 // of 60 subjects, some 20 are the first master's
	g := gate(t, admission.NewRedisStore(pipelined(t, rdb)), namespace(), fmt.Sprintf("- {name: r, subject: user, limit: %d, window: 1h}", limit))
	var (
		wg       sync.WaitGroup
		admitted [subjects]atomic.Int64
		asked    atomic.Int64
		midst    = make(chan struct{})
	)
	for i := range subjects {
		wg.Go(func() {
			for range each {
				d, err := g.Charge(t.Context(), admission.Request{User: strconv.Itoa(i)})
				if err != nil || d.Degraded {
					t.Errorf("Charge = %+v, %v", d, err)
				}
				if d.Admitted {
					admitted[i].Add(1)
				}
				if asked.Add(1) == subjects*each/3 {
					close(midst)
				}
			}
		})
	}
	<-midst
	cluster.FailOver()
	wg.Wait()
	for i := range admitted {
		if n := admitted[i].Load(); n != limit {
			t.Errorf("%d of user %d admitted, want %d", n, i, limit)
		}
	}
}
