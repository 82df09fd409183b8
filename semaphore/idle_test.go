package semaphore_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

var callsOf = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// commands returns how often each command was carried out, those in scripts too.
func commands(t *testing.T, rdb redis.UniversalClient) map[string]int {
	t.Helper()
	info, err := rdb.Info(soon(t), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, m := range callsOf.FindAllStringSubmatch(info, -1) {
		if m[1] != "info" {
			calls[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	return calls
}

// Ten thousand waiters in one process cost one subscription and one heartbeat.
func TestIdleWaitersCostNothing(t *testing.T) {
	const waiters = 10_000
	h := newHouse(t, testenv.StartRedis(t).URL())
	rdb := h.client()
	s := h.defined("report", 1, long)
	release(t, acquire(t, s, semaphore.Request{}))
	p := acquire(t, s, semaphore.Request{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			if p, _, _ := s.Acquire(ctx); p != nil {
				_ = p.Release()
			}
		})
	}
	await(t, s, func(st semaphore.Status) bool { return st.Waiting == waiters })
	subscribed, err := rdb.Do(soon(t), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil || strings.Count(subscribed, "\n") != 1 {
		t.Errorf("%d connections are subscribed, %v", strings.Count(subscribed, "\n"), err)
	}

	before, start := commands(t, rdb), time.Now()
	var after map[string]int
	for beats := 0; beats < 8; beats = after["evalsha"] - before["evalsha"] {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-soon(t).Done():
			t.Fatal("the heart has stopped")
		}
		after = commands(t, rdb)
	}
	took, all, scripts := time.Since(start).Seconds(), 0, after["evalsha"]-before["evalsha"]
	for name, n := range after {
		all += n - before[name]
	}
	t.Logf("%d idle waiters for %.1f s: %d scripts with %d commands in all: %.5f scripts, %.5f commands a waiter and second",
		waiters, took, scripts, all, float64(scripts)/took/waiters, float64(all)/took/waiters)
	if rate := float64(all) / took / waiters; rate > 0.05 {
		t.Errorf("%v commands a waiter and second", rate)
	}
	checkTTL(t, rdb, h)
	release(t, p)
	wg.Wait()
	if st := status(t, s); st.InUse != 0 || st.Waiting != 0 || st.Totals.Granted != waiters+2 {
		t.Errorf("at the end: %+v", st)
	}
	checkTTL(t, rdb, h)
}

// However many waiters there is room for at once, no script keeps Redis busy with more than 500 of them.
func TestNoScriptServesAll(t *testing.T) {
	t.Parallel()
	const waiters, most = 2000, 500
	h := newHouse(t, testenv.Redis(t))
	set, w := h.setOnWay()
	s := of(t, set, "report")
	define(t, s, 0, long)
	ctx := soon(t)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			if _, _, err := s.Grant(ctx, semaphore.Request{}); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, s, func(st semaphore.Status) bool { return st.Waiting == waiters })
	var mu sync.Mutex
	scripts, largest := 0, 0
	w.set(nil, func(cmd redis.Cmder) {
		reply, ok := cmd.(*redis.Cmd)
		if !ok {
			return
		}
		parts, err := reply.Slice()
		if err != nil || len(parts) != 2 {
			return
		}
		if granted, ok := parts[1].([]any); ok && len(granted) > 0 {
			mu.Lock()
			scripts, largest = scripts+1, max(largest, len(granted)/5)
			mu.Unlock()
		}
	})
	define(t, s, waiters, long)
	wg.Wait()
	if st := status(t, s); st.InUse != waiters || st.Waiting != 0 {
		t.Errorf("%d in use, %d wait", st.InUse, st.Waiting)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d waiters were served by %d scripts, at most %d by one", waiters, scripts, largest)
	if largest > most || largest == 0 {
		t.Errorf("one script has served %d", largest)
	}
}

// checkTTL fails the test where a key would stay for ever, unless it is a definition.
func checkTTL(t *testing.T, rdb redis.UniversalClient, h *house) {
	t.Helper()
	ctx, seen := soon(t), 0
	for keys := rdb.Scan(ctx, 0, h.namespace+"*", 1000).Iterator(); keys.Next(ctx); seen++ {
		key := keys.Val()
		ttl, err := rdb.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		limit, err := rdb.HExists(ctx, key, "limit").Result()
		if definition := err == nil && limit; definition != (ttl == -1) {
			t.Errorf("%s lives for %v; is a definition: %v", key, ttl, definition)
		}
	}
	if seen == 0 {
		t.Error("there are no keys")
	}
}
