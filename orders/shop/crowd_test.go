package shop_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// crowd sends buyers through all processes until the sale is sold out, while disturb does something to Redis, and returns the
// accepted orders.
func (in *installation) crowd(sale string, buyers int, disturb func(sold func(int) <-chan struct{})) []orders.ID {
	in.t.Helper()
	var (
		mu       sync.Mutex
		accepted []orders.ID
		waiting  = make(map[int]chan struct{})
		wg       sync.WaitGroup
		next     atomic.Int64
		soldOut  atomic.Bool
	)
	sold := func(count int) <-chan struct{} { // closed when count orders are accepted
		mu.Lock()
		defer mu.Unlock()
		ch := make(chan struct{})
		if waiting[count] = ch; len(accepted) >= count {
			close(ch)
			delete(waiting, count)
		}
		return ch
	}
	for b := range buyers {
		p := in.processes[b%len(in.processes)]
		wg.Go(func() {
			for !soldOut.Load() {
				user := fmt.Sprint("crowd-", next.Add(1))
				for { // as a buyer retries failed requests
					out, err := attempt(in.t.Context(), p, orders.Request{Sale: sale, Item: "shoe", Quantity: 1, User: user})
					if errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrRecovering) || out.Reason == orders.ReasonAtCapacity {
						select {
						case <-time.After(5 * time.Millisecond):
						case <-in.t.Context().Done():
							return
						}
						continue
					}
					if err != nil {
						in.t.Error(err)
						return
					}
					if out.Reason == orders.ReasonSoldOut {
						soldOut.Store(true)
						break
					}
					mu.Lock()
					accepted = append(accepted, out.Order.ID)
					for count, ch := range waiting {
						if len(accepted) >= count {
							close(ch)
							delete(waiting, count)
						}
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	disturb(sold)
	wg.Wait()
	return accepted
}

// TestForgettingInTheMiddleOfASaleLosesNothing: Redis loses its data while the processes run.
func TestForgettingInTheMiddleOfASaleLosesNothing(t *testing.T) {
	t.Parallel()
	const stock = 1200
	for name, forget := range map[string]func(*installation, *testenv.RedisServer){
		"FLUSHALL":                     func(in *installation, _ *testenv.RedisServer) { must(in.t, in.rdb.FlushAll(in.t.Context()).Err()) },
		"restart with an empty memory": func(_ *installation, r *testenv.RedisServer) { r.Kill(); r.RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			ps := []*process{in.start(), in.start()}
			in.work(ps[0])
			sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = stock })
			accepted := in.crowd(sale.ID, 6, func(sold func(int) <-chan struct{}) {
				for _, at := range []int{100, 500, 900} {
					arrives(t, fmt.Sprint(at, " orders are accepted"), sold(at))
					forget(in, server)
				}
			})
			confirmed, late := in.outcomes(ps[1], accepted)
			if confirmed != stock || late != 0 {
				t.Errorf("%d confirmed and %d rejected of %d accepted and %d units", confirmed, late, len(accepted), stock)
			}
			in.balanced(ps[0], sale.ID)
			t.Logf("%d orders, %d epochs", len(accepted), in.epoch(sale.ID))
		})
	}
}
