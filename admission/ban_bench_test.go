package admission_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// BenchmarkBans is what a request pays to be held against the bans in force.
func BenchmarkBans(b *testing.B) {
	for _, n := range []int{0, 1, 1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := admission.NewMemoryStore(admission.MemoryOptions{})
			g := quickGate(b, store, noRules)
			var news admission.BanNews
			for i := range n {
				news.Put = append(news.Put, admission.BanOrder{
					BanTarget: admission.BanTarget{Kind: admission.BanUser, Value: fmt.Sprint("user-", i)}, For: time.Hour,
				})
			}
			if n > 1 {
				for bits := 16; bits <= 24; bits++ {
					news.Put = append(news.Put, admission.BanOrder{
						BanTarget: admission.BanTarget{Kind: admission.BanNetwork, Value: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits).String()},
						For:       time.Hour,
					})
				}
			}
			if _, err := store.Exchange(b.Context(), "tidegate:{bans}", news); err != nil {
				b.Fatal(err)
			}
			if err := g.Pulse(b.Context()); err != nil {
				b.Fatal(err)
			}
			req := admission.Request{User: "ann", Device: "phone", IP: netip.MustParseAddr("192.0.2.1")}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, _, ok := g.Banned(req); ok {
						b.Error("banned")
					}
				}
			})
		})
	}
}
