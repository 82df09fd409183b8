package admission_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
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
