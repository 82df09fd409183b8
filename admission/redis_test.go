package admission_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A log must not grow: the next admission removes units that have left the window.
func TestExpiredUnitsLeaveTheList(t *testing.T) {
	t.Parallel()
	rdb, ns, clk := dial(t, testenv.Redis(t)), namespace(), newClock()
	store := redisstore.New(rdb)
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
	g := gate(t, redisstore.New(rdb), ns, "- {name: a, subject: user, limit: 10, window: 10m}")
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
		client redisscript.Client
	}{{"redis", alone, alone}, {"cluster", masters, masters}, {"cluster auto-pipelined", masters, pipelined(t, masters)}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := gate(t, redisstore.New(c.client), namespace(), fmt.Sprintf("- {name: r, subject: user, limit: %d, window: 1h}", limit))
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

// Bans are not sent through the pipeline that orders share: their scripts would hold it up.
func TestBansHaveNoPipeline(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.Redis(t))
	if err := rdb.Ping(t.Context()).Err(); err != nil { // a new connection begins with a pipeline
		t.Fatal(err)
	}
	seen := &pipelines{}
	rdb.AddHook(seen)
	store := redisstore.New(pipelined(t, rdb))
	if _, err := store.Bans().Exchange(t.Context(), namespace()+":{bans}", bans.News{}); err != nil {
		t.Fatal(err)
	}
	if seen.count != 0 || seen.single == 0 {
		t.Errorf("%d pipelines, %d commands alone", seen.count, seen.single)
	}
}

// pipelines counts what a client sends.
type pipelines struct{ count, single int }

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.single++
		return next(ctx, cmd)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.count++
		return next(ctx, cmds)
	}
}
