package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// A failover that both servers agree on changes no answer: it is waited for.
func TestAFailoverInMidFlight(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartFailoverCluster(t, 10*time.Second)
	rdb := dial(t, "redis://"+strings.Join(cluster.Addrs, ","))
	const subjects, each, limit = 60, 40, 25                                                                                                                      // of 60 subjects, some 20 are the first master's
	g := gate(t, redisstore.New(pipelined(t, rdb)), namespace(), fmt.Sprintf("- {name: r, subject: user, limit: %d, window: 1h, on_store_error: closed}", limit)) // closed: an error shows its cause
	var (
		wg       sync.WaitGroup
		admitted [subjects]atomic.Int64
		asked    atomic.Int64
		midst    = make(chan struct{})
	)
	for i := range subjects {
		wg.Go(func() {
			for n := range each {
				req := admission.Request{User: strconv.Itoa(i), ID: fmt.Sprintf("%d-%d", i, n)}
				d, err := g.Charge(t.Context(), req)
				for end := time.Now().Add(time.Minute); errors.Is(err, admission.ErrUnavailable) && time.Now().Before(end); { // on a busy machine nodes agree late
					d, err = g.Charge(t.Context(), req)
				}
				if err != nil {
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

// A master dies in the middle of load, and its replica takes its place. Nobody waits longer than the gate's time-out; in between
// requests are admitted uncounted, as the rule says. A master writes its answers and what its replica is to know in the same turn of
// its loop, and a caller asks nothing more before it has its answer: so when it dies at most one unit of each caller was answered that
// the replica never learns of. By so many, and no more, may a limit be passed.
func TestAMasterDiesUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		subjects = 60 // each of one caller; some 20 are the first master's
		limit    = 150
		timeout  = 150 * ms  // the default
		slack    = 1500 * ms // for a busy machine
	)
	cluster := testenv.StartFailoverCluster(t)
	opts, err := redisclient.ParseURL("redis://" + strings.Join(cluster.Addrs, ","))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	rules := parse(t, fmt.Sprintf("- {name: r, subject: user, algorithm: sliding_log, limit: %d, window: 1h}", limit))
	g, err := admission.NewWithStore(redisstore.New(pipelined(t, rdb)), rules, admission.Options{Secret: secret, DenyCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg                       sync.WaitGroup
		counted                  [subjects]int
		asked, degraded, longest atomic.Int64
		promoted                 atomic.Bool
		midst                    = make(chan struct{})
	)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := range subjects {
		wg.Go(func() {
			pace := time.NewTicker(10 * ms)
			defer pace.Stop()
			for { // until the master says that the limit is reached
				select {
				case <-pace.C:
				case <-ctx.Done():
					t.Errorf("user %d is not served again", i)
					return
				}
				start := time.Now()
				d, err := g.Charge(t.Context(), admission.Request{User: strconv.Itoa(i)})
				took := int64(time.Since(start))
				for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
				}
				switch {
				case err != nil:
					t.Errorf("Charge: %v", err)
					return
				case d.Degraded:
					degraded.Add(1)
				case d.Admitted:
					counted[i]++
				case promoted.Load():
					return
				}
				if asked.Add(1) == subjects*limit/3 {
					close(midst)
				}
			}
		})
	}
	select {
	case <-midst:
		cluster.KillMaster()
	case <-ctx.Done():
	}
	promoted.Store(true)
	wg.Wait()
	t.Logf("%d admitted uncounted, longest wait %v", degraded.Load(), time.Duration(longest.Load()))
	for i, n := range counted {
		if n > limit+1 {
			t.Errorf("user %d: %d admitted, want at most %d and one that was lost", i, n, limit)
		}
	}
	if took := time.Duration(longest.Load()); took > timeout+slack {
		t.Errorf("somebody waited %v", took)
	}
	if degraded.Load() == 0 {
		t.Error("nobody noticed that a master died")
	}
}
