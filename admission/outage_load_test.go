package admission_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/redisclient"
)

// P24: Redis dies, stands still and comes back in the middle of load. Every request is answered within the gate's time-out. Where
// Redis loses nothing, it has counted whatever it answered, once, and beyond that at most what nobody had the patience to hear of. What
// a killed Redis still knows is its append-only file's affair. The longest wait is logged.
func TestRedisDiesUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		callers = 64
		timeout = 150 * ms  // the default
		slack   = 2000 * ms // for a busy machine
		enough  = 200       // decisions of each caller in each phase
		limit   = 1_000_000
	)
	server := testenv.StartRedis(t)
	opts, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	// A window that is opened by the first unit does not end during the test, nor are its units weighed.
	rule := fmt.Sprintf("- {name: r, subject: user, algorithm: fixed_window, limit: %d, window: 1h}", limit)
	g := quickGate(t, redisstore.New(rdb), rule)
	left := func(user string) int { // waits until Redis is in service
		for {
			d, err := g.Check(t.Context(), admission.Request{User: user})
			if err != nil {
				t.Fatal(err)
			}
			if !d.Degraded {
				return d.Remaining
			}
		}
	}
	var longest atomic.Int64
	// load runs all callers, lets during happen in their midst, and returns how many were counted and how many were not.
	load := func(during func()) (counted, degraded int) {
		var in, out atomic.Int64
		var done atomic.Bool
		midst := make(chan struct{})
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				pace := time.NewTicker(2 * ms) // callers that never pause would measure the scheduler
				defer pace.Stop()
				for n := 0; n < enough || !done.Load(); n++ {
					<-pace.C
					start := time.Now()
					d, err := g.Charge(t.Context(), admission.Request{User: strconv.Itoa(i)})
					took := int64(time.Since(start))
					for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
					}
					switch {
					case err != nil || !d.Admitted:
						t.Errorf("%+v, %v", d, err)
					case d.Degraded:
						out.Add(1)
					case in.Add(1) == callers*enough/4:
						close(midst)
					}
				}
			})
		}
		<-midst
		during()
		done.Store(true)
		wg.Wait()
		return int(in.Load()), int(out.Load())
	}
	for _, phase := range []struct {
		name   string
		during func()
		after  func()
		loses  bool
	}{
		{"well", func() {}, func() {}, false},
		{"standing still", server.Stop, server.Continue, false},
		{"killed", server.Kill, server.Restart, true},
		{"flapping", func() {
			for range 3 {
				server.Stop()
				server.Continue()
				server.Restart()
			}
		}, func() {}, true},
	} {
		var before [callers]int
		for i := range before {
			before[i] = left(strconv.Itoa(i))
		}
		in, out := load(phase.during)
		t.Logf("%s: %d counted, %d admitted uncounted, longest wait so far %v", phase.name, in, out, time.Duration(longest.Load()))
		phase.after()
		used := 0
		for i := range before {
			used += before[i] - left(strconv.Itoa(i))
		}
		if !phase.loses && (used < in || used > in+out) {
			t.Errorf("%s: %d units used, want %d to %d", phase.name, used, in, in+out)
		}
	}
	if took := time.Duration(longest.Load()); took > timeout+slack {
		t.Errorf("somebody waited %v", took)
	}
}
