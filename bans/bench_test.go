package bans_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// BenchmarkFind measures the lookup of a caller in the bans in force.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{0, 1, 1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := memory(nil)
			g := newList(store)
			var news bans.News
			for i := range n {
				news.Put = append(news.Put, bans.Order{
					Target: bans.Target{Kind: bans.User, Value: fmt.Sprint("user-", i)}, For: time.Hour,
				})
			}
			if n > 1 {
				for bits := 16; bits <= 24; bits++ {
					news.Put = append(news.Put, bans.Order{
						Target: bans.Target{Kind: bans.Network, Value: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits).String()},
						For:    time.Hour,
					})
				}
			}
			if _, err := store.Exchange(b.Context(), "tidegate:{bans}", news); err != nil {
				b.Fatal(err)
			}
			if err := g.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
			ip := netip.MustParseAddr("192.0.2.1")
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if held, _ := g.Find("ann", "phone", ip); held != nil {
						b.Error("banned")
					}
				}
			})
		})
	}
}
