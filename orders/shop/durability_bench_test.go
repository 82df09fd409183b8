package shop_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// BenchmarkDurability reserves in Redis servers configured for each durability, with the task queues in the same server. The
// durabilities take turns, because the speed of a shared machine varies: an operation is one turn of each, and the table
// compares turns of the same round. Run it with -benchtime 25x.
func BenchmarkDurability(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			contenders := []*durable{
				newDurable(b, shop.DurabilityMemory, false, "--appendonly", "no"),
				newDurable(b, shop.DurabilityEverysec, false, "--appendfsync", "everysec"),
				newDurable(b, shop.DurabilityFsync, false, "--appendfsync", "always"),
				newDurable(b, shop.DurabilityReplicated, true, "--appendonly", "no"),
			}
			b.ResetTimer()
			for range b.N {
				for _, d := range contenders {
					d.turn(b, callers, 300+25*callers)
				}
			}
			var table strings.Builder
			fmt.Fprintf(&table, "%-10s %9s %8s %8s %8s  %s\n", "durability", "orders/s", "p50 ms", "p99 ms", "refused", "of memory's orders/s in the same round: median, lowest to highest")
			for _, d := range contenders {
				ratios := make([]float64, b.N)
				for i := range ratios {
					ratios[i] = d.speed[i] / contenders[0].speed[i]
				}
				slices.Sort(ratios)
				slices.Sort(d.speed)
				slices.Sort(d.took)
				fmt.Fprintf(&table, "%-10s %9.0f %8.2f %8.2f %8d  %.2f, %.2f to %.2f\n", d.durability, d.speed[b.N/2],
					d.took[len(d.took)/2].Seconds()*1e3, d.took[len(d.took)*99/100].Seconds()*1e3,
					len(d.took)-int(d.accepted.Load()), ratios[b.N/2], ratios[0], ratios[b.N-1])
			}
			if b.N > 1 {
				b.Log("\n" + table.String())
			}
		})
	}
}

// durable is an installation with one durability, and its results.
type durable struct {
	durability shop.Durability
	in         *installation
	p          *process
	sale       string
	users      atomic.Int64
	accepted   atomic.Int64 // the others were refused with 503 after a timeout
	speed      []float64    // orders per second, by turn
	took       []time.Duration
}

func newDurable(b *testing.B, d shop.Durability, replica bool, settings ...string) *durable {
	server := testenv.StartRedis(b, settings...)
	if replica {
		server.StartReplica(settings...)
	}
	in := installIn(b, server.URL(), testenv.Postgres(b))
	p := in.start(keeping(d), func(o *shop.Options) { o.MaxRemembered = 10_000_000 })
	must(b, p.CheckDurability(b.Context()))
	sale := in.sale(p, func(s *orders.Sale) {
		s.Items[0].Stock, s.Items[0].InFlightMax = orders.MaxStock, orders.MaxInFlight
	})
	return &durable{durability: d, in: in, p: p, sale: sale.ID}
}

func (d *durable) turn(b *testing.B, callers, count int) {
	took := make([]time.Duration, count)
	var next atomic.Int64
	var g sync.WaitGroup
	began := time.Now()
	for range callers {
		g.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				asked := time.Now()
				out, err := attempt(b.Context(), d.p, orders.Request{Sale: d.sale, Item: "shoe", Quantity: 1, User: fmt.Sprint(d.users.Add(1))})
				took[i] = time.Since(asked)
				if err == nil && out.Admitted() {
					d.accepted.Add(1)
				}
			}
		})
	}
	g.Wait()
	d.speed = append(d.speed, float64(count)/time.Since(began).Seconds())
	d.took = append(d.took, took...)
	// Leave the machine to the next one. Orders that were not queued in time stay in the outbox: no sweeper runs.
	for until := time.Now().Add(time.Second); d.in.queued() < int(d.accepted.Load()) && time.Now().Before(until); {
		runtime.Gosched()
	}
}
