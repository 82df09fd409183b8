package login_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/redisclient"
)

// BenchmarkAttemptBesideRule takes turns: charging one plain rule, reserving attempts by the default rules, the same with an id, and reserving and
// settling. Each is made by as many callers over one Redis, with names and addresses that are new to it. What is reported besides is how many of
// each there were for one decision of the rule in the same turns.
func BenchmarkAttemptBesideRule(b *testing.B) {
	opts, err := redisclient.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewUniversalClient(opts)
	defer rdb.Close()
	set, err := rules.Parse("bench.yaml", []byte("version: 1\nrules: [{name: plain, subject: user, limit: 10, window: 1m}]"))
	if err != nil {
		b.Fatal(err)
	}
	gate, err := admission.NewWithStore(redisstore.New(rdb), set, admission.Options{Secret: secret, Namespace: "bench", DenyCache: -1, Timeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	th := throttle(b, login.NewRedisStore(rdb), rules.Default, login.Options{Namespace: "bench"})

	var next atomic.Uint32
	person := func() (string, netip.Addr) {
		i := next.Add(1)
		return fmt.Sprintf("user-%d@shop.example", i), netip.AddrFrom4([4]byte{byte(10 + i>>24), byte(i >> 16), byte(i >> 8), byte(i)})
	}
	reserve := func(ctx context.Context, a login.Attempt) (string, error) {
		a.Name, a.IP = person()
		d, err := th.Reserve(ctx, a)
		if err == nil && (d.Action != login.Allow || d.Degraded) {
			err = fmt.Errorf("%+v", d)
		}
		return d.ID, err
	}
	kinds := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"rule", func(ctx context.Context) error {
			user, ip := person()
			d, err := gate.Charge(ctx, admission.Request{User: user, IP: ip})
			if err == nil && (!d.Admitted || d.Degraded) {
				err = fmt.Errorf("%+v", d)
			}
			return err
		}},
		{"attempt", func(ctx context.Context) error {
			_, err := reserve(ctx, login.Attempt{})
			return err
		}},
		{"with-id", func(ctx context.Context) error {
			_, err := reserve(ctx, login.Attempt{ID: "7c9e6679-7425-40de-944b-e07fc1f90ae7"})
			return err
		}},
		{"settled", func(ctx context.Context) error {
			id, err := reserve(ctx, login.Attempt{})
			if err == nil {
				_, err = th.Settle(ctx, id, login.Success)
			}
			return err
		}},
	}
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			spent := make([]time.Duration, len(kinds))
			total := 0
			for b.Loop() {
				total += 64 * callers
				for i, kind := range kinds {
					began := time.Now()
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for range 64 {
								if err := kind.do(b.Context()); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					spent[i] += time.Since(began)
				}
			}
			for i, kind := range kinds {
				b.ReportMetric(float64(total)/spent[i].Seconds(), kind.name+"/s")
				if i > 0 {
					b.ReportMetric(spent[0].Seconds()/spent[i].Seconds(), kind.name+"/rule")
				}
			}
		})
	}
}
