package orders_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// buy asks until there is an answer, as a buyer does whose requests fail.
func (in *installation) buy(p *process, sale, user string) orders.Outcome {
	in.t.Helper()
	var out orders.Outcome
	eventually(in.t, user+" gets an answer", func() bool {
		var err error
		out, err = attempt(in.t.Context(), p, orders.Request{Sale: sale, Item: "shoe", Quantity: 1, User: user})
		if err != nil && !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering) {
			in.t.Fatal(err)
		}
		return err == nil
	})
	return out
}

func TestASaleOutlivesRedis(t *testing.T) {
	const stock, early = 40, 15
	for name, lose := range map[string]func(*installation, *testenv.RedisServer){
		"FLUSHALL":                     func(in *installation, _ *testenv.RedisServer) { must(in.t, in.rdb.FlushAll(in.t.Context()).Err()) },
		"restart with its file":        func(_ *installation, r *testenv.RedisServer) { r.Kill(); r.Restart() },
		"restart with an empty memory": func(_ *installation, r *testenv.RedisServer) { r.Kill(); r.RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			// Everything is remembered twice until the commit, and no worker runs when Redis forgets.
			ps := []*process{in.start(), in.start()}
			sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = stock })
			accepted := make(map[string]orders.ID)
			first := in.work(ps[0])
			for i := range early {
				user := fmt.Sprint("user-", i)
				out := in.buy(ps[i%2], sale.ID, user)
				accepted[user] = out.Order.ID
				if i == 7 {
					in.settled(ps[0], out.Order.ID)
					first() // from here on nothing is committed
				}
			}
			lose(in, server)
			in.work(ps[1])
			sold := early
			for i := early; i < stock+20; i++ {
				user := fmt.Sprint("user-", i)
				out := in.buy(ps[i%2], sale.ID, user)
				switch {
				case out.Admitted():
					sold++
					accepted[user] = out.Order.ID
				case out.Reason != orders.ReasonSoldOut:
					t.Errorf("%s: %+v", user, out)
				}
			}
			confirmed, rejected := 0, 0
			for user, id := range accepted {
				switch o := in.settled(ps[0], id); {
				case o.Buyer != user:
					t.Errorf("order %s of %s belongs to %s", id, user, o.Buyer)
				case o.Status == orders.StatusConfirmed:
					confirmed++
				case o.Status == orders.StatusRejected && o.Reason == orders.ReasonRecoveredLate:
					rejected++
					delete(accepted, user) // it gave its identity up
				default:
					t.Errorf("order %+v", o)
				}
			}
			t.Logf("%d accepted, %d confirmed, %d rejected as recovered late", confirmed+rejected, confirmed, rejected)
			if confirmed != stock {
				t.Errorf("%d confirmed of %d units with more buyers than that", confirmed, stock)
			}
			eventually(t, "all is settled", func() bool {
				checks, err := ps[0].Verify(t.Context(), sale.ID)
				return err == nil && checks[len(checks)-1].Waiting == 0
			})
			in.verified(ps[0], sale.ID)
			for user, id := range accepted {
				if out := in.buy(ps[1], sale.ID, user); !out.Replayed || out.Order.ID != id {
					t.Errorf("%s asks again: %+v, want order %s", user, out, id)
				}
			}
		})
	}
}

func TestWhileRedisIsAwayNothingIsPromised(t *testing.T) {
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start(func(o *orders.Options) { o.Timeout = 200 * time.Millisecond })
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 100 })
	for name, away := range map[string]func(){"killed": server.Kill, "stopped": server.Stop} {
		away()
		for i := range 10 {
			began := time.Now()
			_, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(name, i)})
			if !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering) {
				t.Fatalf("%s: %v, want ErrUnavailable", name, err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: an answer after %v", name, took)
			}
		}
		if name == "killed" {
			server.Restart()
		} else {
			server.Continue()
		}
		eventually(t, "orders are taken again", func() bool {
			out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: name})
			return err == nil && out.Admitted()
		})
	}
}

func TestTwoLeadersRebuildOnce(t *testing.T) {
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	ps := []*process{in.start(), in.start(), in.start()}
	in.work(ps[0])
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 30 })
	for i := range 10 {
		in.settled(ps[0], in.order(ps[0], sale.ID, fmt.Sprint("user-", i), "", 1).Order.ID)
	}
	must(t, in.rdb.FlushAll(t.Context()).Err())
	for i, p := range ps { // all find out at once
		out := in.buy(p, sale.ID, fmt.Sprint("late-", i))
		if !out.Admitted() {
			t.Errorf("%+v", out)
		}
		in.settled(p, out.Order.ID)
	}
	var epoch int
	must(t, in.pool.QueryRow(t.Context(), `SELECT epoch FROM sales WHERE sale = $1`, sale.ID).Scan(&epoch))
	if epoch != 2 {
		t.Errorf("epoch %d after one loss", epoch)
	}
	eventually(t, "all is settled", func() bool { return in.verified(ps[0], sale.ID) == 0 })
}
