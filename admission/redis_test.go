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

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A log must not grow: the next admission removes units that have left the window.
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

// P10: all masters forget their scripts in the middle of load, again and again. Nobody notices, and nothing is counted twice or not
// at all.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	alone := dial(t, testenv.StartRedis(t).URL())
	masters := dial(t, cluster(t))
	const callers, subjects, each, limit, flushes = 50, 10, 40, 100, 8
	for _, c := range []struct {
		name   string
		rdb    redis.UniversalClient
		client admission.Client
	}{{"redis", alone, alone}, {"cluster", masters, masters}, {"cluster auto-pipelined", masters, pipelined(t, masters)}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := gate(t, admission.NewRedisStore(c.client), namespace(), fmt.Sprintf("- {name: r, subject: user, limit: %d, window: 1h}", limit))
			var (
				wg       sync.WaitGroup
				admitted [subjects]atomic.Int64
				asked    atomic.Int64
			)
			for i := range callers {
				wg.Go(func() {
					for range each {
						d, err := g.Charge(t.Context(), admission.Request{User: strconv.Itoa(i % subjects)})
						if err != nil || d.Degraded {
							t.Errorf("Charge = %+v, %v", d, err)
						}
						if d.Admitted {
							admitted[i%subjects].Add(1)
						}
						if asked.Add(1)%(callers*each/flushes) == 0 {
							if err := c.rdb.ScriptFlush(t.Context()).Err(); err != nil { // a cluster's client tells every master
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			for i := range admitted {
				if n := admitted[i].Load(); n != limit {
					t.Errorf("%d of user %d admitted, want %d", n, i, limit)
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
		{"redis+sentinel://user:word@a:1,b:2,c:3/main", "a:1 b:2 c:3", false, false},
		{"rediss+sentinel://a:1/main/3", "a:1", true, false},
		{"redis+sentinel://a:1,b:2", "", false, true},
		{"redis+sentinel://a:1,b:2/main/x", "", false, true},
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
		if sentinels := strings.Contains(c.url, "+sentinel:"); (opts.MasterName == "main") != sentinels || sentinels && strings.Contains(c.url, "/3") != (opts.DB == 3) {
			t.Errorf("%q: master %q, database %d", c.url, opts.MasterName, opts.DB)
		}
		if opts.MaxRetries != -1 || opts.DialerRetries != 1 || !opts.ContextTimeoutEnabled || opts.ReadTimeout > 100*ms {
			t.Errorf("%q: not the settings of a decision: %+v", c.url, opts)
		}
	}
}
