package orders_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// BenchmarkDurability reserves in Redis servers that are set up as each durability asks, with the task queues in the same server.
// Run it with -benchtime 20000x, so that all do the same.
func BenchmarkDurability(b *testing.B) {
	for _, mode := range []struct {
		durability orders.Durability
		settings   []string
		replica    bool
	}{
		{orders.DurabilityMemory, []string{"--appendonly", "no"}, false},
		{orders.DurabilityEverysec, []string{"--appendfsync", "everysec"}, false},
		{orders.DurabilityFsync, []string{"--appendfsync", "always"}, false},
		{orders.DurabilityReplicated, []string{"--appendonly", "no"}, true},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", mode.durability, callers), func(b *testing.B) {
				server := testenv.StartRedis(b, mode.settings...)
				if mode.replica {
					server.StartReplica(mode.settings...)
				}
				in := installIn(b, server.URL(), testenv.Postgres(b))
				p := in.start(keeping(mode.durability), func(o *orders.Options) { o.RememberMax = 10_000_000 })
				must(b, p.CheckDurability(b.Context()))
				sale := in.sale(p, func(s *orders.Sale) {
					s.Items[0].Stock, s.Items[0].InFlightMax = orders.MaxStock, orders.MaxInFlight
				})
				took := make([]time.Duration, b.N)
				var next atomic.Int64
				var g sync.WaitGroup
				b.ResetTimer()
				for range callers {
					g.Go(func() {
						for {
							i := int(next.Add(1)) - 1
							if i >= b.N {
								return
							}
							began := time.Now()
							out, err := attempt(b.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(i)})
							if err != nil || !out.Admitted() {
								b.Errorf("%+v, %v", out, err)
								return
							}
							took[i] = time.Since(began)
						}
					})
				}
				g.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
				b.ReportMetric(took[b.N/2].Seconds()*1e3, "p50-ms")
				b.ReportMetric(took[b.N*99/100].Seconds()*1e3, "p99-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
