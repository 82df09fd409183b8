package admission_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/testenv"
)

// BenchmarkCharge charges the default rules, which count a user and an address: with one user most calls are denied, with 100,000 none of
// them is by the user's limit. Over Redis 256 callers ask at once.
func BenchmarkCharge(b *testing.B) {
	for _, kind := range kinds {
		for _, users := range []int{1, 100_000} {
			b.Run(fmt.Sprintf("%s/users=%d", kind.name, users), func(b *testing.B) {
				g, err := admission.NewWithStore(kind.open(b)(nil), rules.Default(),
					admission.Options{Secret: secret, Namespace: namespace(), Timeout: patience})
				if err != nil {
					b.Fatal(err)
				}
				if kind.name != "memory" {
					b.SetParallelism(128)
				}
				var next atomic.Int64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					req := admission.Request{Route: "/v1/sales/spring/orders", Method: "POST"}
					for pb.Next() {
						i := int(next.Add(1)) % users
						req.User = strconv.Itoa(i)
						req.IP = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
						if d, err := g.Charge(b.Context(), req); err != nil || d.Degraded {
							b.Errorf("Charge = %+v, %v", d, err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkManyRules charges rules that all match, from 16 callers at a time, and reports the longest time for which Redis did nothing else.
func BenchmarkManyRules(b *testing.B) {
	for _, n := range []int{2, 50, 500, 1000} {
		b.Run("rules="+strconv.Itoa(n), func(b *testing.B) {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, "- {name: r%d, subject: user, limit: 1000000, window: %dm}\n", i, i+1)
			}
			rdb := dial(b, testenv.StartRedis(b, "--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000").URL())
			g, err := admission.NewWithStore(redisstore.New(rdb), parse(b, text.String()),
				admission.Options{Secret: secret, Namespace: namespace(), Timeout: patience})
			if err != nil {
				b.Fatal(err)
			}
			var callers atomic.Int64
			b.SetParallelism((16 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				req := admission.Request{User: strconv.FormatInt(callers.Add(1), 10)}
				for pb.Next() {
					if d, err := g.Charge(b.Context(), req); err != nil || d.Degraded {
						b.Errorf("Charge = %+v, %v", d, err)
						return
					}
				}
			})
			b.StopTimer()
			log, err := rdb.SlowLogGet(b.Context(), -1).Result()
			if err != nil {
				b.Fatal(err)
			}
			var longest, all time.Duration
			scripts := 0
			for _, call := range log {
				if strings.HasPrefix(strings.ToLower(call.Args[0]), "eval") {
					longest, all, scripts = max(longest, call.Duration), all+call.Duration, scripts+1
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest-script")
			b.ReportMetric(float64(all.Microseconds())/1000/float64(scripts), "ms/script")
		})
	}
}

// BenchmarkDenied asks again and again for subjects that were refused: no request leaves the process.
func BenchmarkDenied(b *testing.B) {
	for _, subjects := range []int{1, 1000} {
		b.Run("subjects="+strconv.Itoa(subjects), func(b *testing.B) {
			g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), parse(b, "- {name: r, subject: user, limit: 1, window: 1h}"),
				admission.Options{Secret: secret})
			if err != nil {
				b.Fatal(err)
			}
			users := make([]string, subjects)
			for i := range users {
				users[i] = strconv.Itoa(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := g.Charge(b.Context(), admission.Request{User: users[i%subjects]}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "denials/s")
		})
	}
}

func BenchmarkParseRules(b *testing.B) {
	src := rules.Default().Source()
	for b.Loop() {
		if _, err := rules.Parse("default.yaml", src); err != nil {
			b.Fatal(err)
		}
	}
}
