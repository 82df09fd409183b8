package login_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

// BenchmarkAttemptBesideRule takes turns: reserving attempts by the default ladder, and charging one plain rule, each by as many callers
// over one Redis, with 100,000 names and addresses. attempts/rule is their ratio within the turns.
func BenchmarkAttemptBesideRule(b *testing.B) {
	opts, err := admission.RedisOptions(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	defer rdb.Close()
	rules, err := admission.ParseRules("bench.yaml", []byte("version: 1\nrules: [{name: plain, subject: user, limit: 10, window: 1m}]"))
	if err != nil {
		b.Fatal(err)
	}
	gate, err := admission.New(admission.NewRedisStore(rdb), rules, admission.Options{Secret: secret, Namespace: uuid.NewString(), DenyCache: -1, Timeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	th := throttle(b, login.NewRedisStore(rdb), admission.DefaultRules, login.Options{})

	const people = 100_000
	names := make([]string, people)
	addresses := make([]netip.Addr, people)
	for i := range people {
		names[i] = fmt.Sprintf("user-%d@shop.example", i)
		addresses[i] = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var next atomic.Uint64
			person := func() uint64 { return next.Add(7919) % people }
			var spent [2]time.Duration
			turn := func(which, n int, do func(ctx context.Context) error) {
				began := time.Now()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for range n / callers {
							if err := do(b.Context()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				spent[which] += time.Since(began)
			}
			total := 0
			for b.Loop() {
				n := max(64, 4) * callers
				total += n
				turn(0, n, func(ctx context.Context) error {
					_, err := gate.Charge(ctx, admission.Request{User: names[person()]})
					return err
				})
				turn(1, n, func(ctx context.Context) error {
					i := person()
					d, err := th.Reserve(ctx, login.Attempt{Name: names[i], IP: addresses[i]})
					if err == nil && d.Degraded {
						err = login.ErrUnavailable
					}
					return err
				})
			}
			b.ReportMetric(float64(total)/spent[0].Seconds(), "rule/s")
			b.ReportMetric(float64(total)/spent[1].Seconds(), "attempts/s")
			b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "attempts/rule")
		})
	}
}
