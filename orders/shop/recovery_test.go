package shop_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// buy retries until there is an answer, as a buyer would.
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
	t.Parallel()
	const stock, early = 40, 15
	for name, lose := range map[string]func(*installation, *testenv.RedisServer){
		"FLUSHALL":                     func(in *installation, _ *testenv.RedisServer) { must(in.t, in.rdb.FlushAll(in.t.Context()).Err()) },
		"restart with its file":        func(_ *installation, r *testenv.RedisServer) { r.Kill(); r.Restart() },
		"restart with an empty memory": func(_ *installation, r *testenv.RedisServer) { r.Kill(); r.RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			// Every order has two copies until its commit, and no worker runs when Redis loses its data.
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
			confirmed := 0
			for user, id := range accepted {
				switch o := in.settled(ps[0], id); {
				case o.Buyer != user:
					t.Errorf("order %s of %s belongs to %s", id, user, o.Buyer)
				case o.Status == orders.StatusConfirmed:
					confirmed++
				default:
					t.Errorf("order %+v", o)
				}
			}
			if confirmed != stock || sold != stock { // all processes were alive, so no order was late
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

// The sentence for operators does not confuse a Redis that was restarted with one that has lost the sale.
func TestWhyASaleIsRebuiltIsNamed(t *testing.T) {
	t.Parallel()
	const restarted, lost = "Redis was restarted or replaced and still has them", "Redis has lost them"
	for name, of := range map[string]struct {
		lose func(*installation, *testenv.RedisServer)
		want string
	}{
		"FLUSHALL":                     {func(in *installation, _ *testenv.RedisServer) { must(in.t, in.rdb.FlushAll(in.t.Context()).Err()) }, lost},
		"restart with its file":        {func(_ *installation, r *testenv.RedisServer) { r.Restart() }, restarted},
		"restart with an empty memory": {func(_ *installation, r *testenv.RedisServer) { r.RestartEmpty() }, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			p := in.start()
			sale := in.sale(p)
			p.follows() // another process leads, and takes its time
			of.lose(in, server)
			eventually(t, "the condition is there", func() bool {
				return slices.ContainsFunc(p.Conditions(t.Context()), func(c orders.Condition) bool {
					if c.Cause != orders.CauseSales {
						return false
					}
					for _, other := range []string{restarted, lost} {
						if other != of.want && strings.Contains(c.Detail, other) {
							t.Fatalf("it is %q, want %q", c.Detail, of.want)
						}
					}
					return strings.HasPrefix(c.Detail, of.want) && strings.HasSuffix(c.Detail, ": "+sale.ID) // until Redis answers it is another one
				})
			})
			p.mayLead()
			eventually(t, "the sale is rebuilt", func() bool {
				return !slices.ContainsFunc(p.Conditions(t.Context()), func(c orders.Condition) bool { return c.Cause == orders.CauseSales })
			})
		})
	}
}

func TestWhileRedisIsAwayNothingIsPromised(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start(func(o *shop.Options) { o.Timeout = 200 * time.Millisecond })
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
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	rebuilt := tells("a sale was rebuilt from the database")
	logged := func(o *shop.Options) { o.Logger = slog.New(rebuilt) }
	ps := []*process{in.start(logged), in.start(logged), in.start(logged)}
	in.work(ps[0])
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 30 })
	for i := range 10 {
		in.settled(ps[0], in.order(ps[0], sale.ID, fmt.Sprint("user-", i), "", 1).Order.ID)
	}
	must(t, in.rdb.FlushAll(t.Context()).Err())
	for i, p := range ps { // all notice it at the same time
		out := in.buy(p, sale.ID, fmt.Sprint("late-", i))
		if !out.Admitted() {
			t.Errorf("%+v", out)
		}
		in.settled(p, out.Order.ID)
	}
	if n := rebuilt.times.Load(); n != 1 { // more only if the machine was too busy for one attempt
		t.Errorf("rebuilt %d times after one loss", n)
	}
	eventually(t, "all is settled", func() bool { return in.verified(ps[0], sale.ID) == 0 })
}

// TestNobodyReservesIntoASaleThatIsBeingLoaded delivers an order of the old epoch after the leader has read the database and
// before it opens the sale. The order is from a process that was stopped, so it was not handed over.
func TestNobodyReservesIntoASaleThatIsBeingLoaded(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	in.timeout = redisTimeout // this server only loses its keys
	leader, other := in.start(), in.start()
	sale := in.sale(leader, func(s *orders.Sale) { s.Items[0].Stock = 1 })
	early := in.order(other, sale.ID, "early", "", 1)
	thaw := in.freeze(other)
	loaded, open := holds(&leader.store.after, "holdings")
	t.Cleanup(open)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	_, err := attempt(t.Context(), leader, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "late"})
	if !errors.Is(err, orders.ErrRecovering) {
		t.Fatalf("%v, want ErrRecovering", err)
	}
	arrives(t, "the sale is loaded", loaded)
	thaw()
	in.work(leader) // the accepting process offers its order, whose epoch is over
	in.work(other)
	delivered := func(set string) bool {
		n, err := in.rdb.ZCard(t.Context(), fmt.Sprintf("asynq:{%s-accepted-0}:%s", in.namespace, set)).Result()
		must(t, err)
		return n > 0
	}
	eventually(t, "the order was delivered, and put back", func() bool { return delivered("retry") })
	for range 50 {
		if o, err := other.Order(t.Context(), early.Order.ID, orders.Viewer{All: true}); err != nil || o.Status != orders.StatusAccepted {
			t.Fatalf("while the sale is being loaded: %+v, %v", o, err)
		}
		if _, err := leader.Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{User: "early"}, Limit: 1}); !errors.Is(err, orders.ErrRecovering) {
			t.Fatalf("a list of a sale that is being loaded: %v", err)
		}
	}
	open()
	if o := in.settled(other, early.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	eventually(t, "all is settled", func() bool { return in.verified(leader, sale.ID) == 0 })
}

func TestWhoDoesNotLeadWaits(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p)
	var asked atomic.Int64
	follow := func() (bool, error) { asked.Add(1); return false, nil }
	p.store.lead.Store(&follow)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	began := time.Now()
	eventually(t, "it asked for the lead three times", func() bool {
		if _, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"}); err == nil {
			must(t, in.rdb.FlushAll(t.Context()).Err()) // a recovery that was under way has rebuilt the sale
		}
		return asked.Load() >= 3 && time.Since(began) > time.Second
	})
	if n, most := asked.Load(), int64(time.Since(began)/(5*time.Millisecond)+10); n > most {
		t.Errorf("asked %d times in %v, with at most %d requests to make it", n, time.Since(began), most)
	}
}

func TestAnOrderOfBeforeIsNotUnknownAfterARecovery(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	gone, left := in.start(), in.start()
	sale := in.sale(gone)
	placed := in.order(gone, sale.ID, "u", "", 1)
	gone.stop()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.buy(left, sale.ID, "somebody")
	if _, err := left.Order(t.Context(), placed.Order.ID, orders.Viewer{All: true}); !errors.Is(err, orders.ErrRecovering) {
		t.Errorf("%v, want ErrRecovering: another process may still have it", err)
	}
}

func TestAListOfWhatRedisForgotIsNotEmpty(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p)
	in.order(p, sale.ID, "u", "", 1)
	p.follows()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	list, err := p.Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{User: "u"}, Limit: 10})
	if !errors.Is(err, orders.ErrRecovering) && !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("%v, %v; want ErrRecovering", list, err)
	}
}

func TestAnAnswerOfAnotherServerPromisesNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"})
	must(t, err)
	p.rdb.AddHook(around{word: in.namespace + ":{" + sale.ID + ":shoe}:1:pending", after: p.rdb.RunIDs.Invalidate})
	if out, err := a.Reserve(t.Context()); !errors.Is(err, orders.ErrRecovering) {
		t.Errorf("%+v, %v; want ErrRecovering: Redis was replaced before it answered", out, err)
	}
}

func TestAfterADuplicateEverybodyReplaysTheSameOrder(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p, q := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 5 })
	first := in.order(p, sale.ID, "u", "key", 1)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	var second orders.Outcome
	eventually(t, "another process takes the same again", func() bool {
		var err error
		second, err = attempt(t.Context(), q, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u", Key: "key"})
		return err == nil
	})
	in.work(q)
	held := first.Order.ID
	if o := in.settled(q, first.Order.ID); o.Status == orders.StatusRejected {
		held = second.Order.ID
	}
	in.settled(q, second.Order.ID)
	for _, at := range in.processes {
		eventually(t, "both replay the order that stands", func() bool {
			out, err := attempt(t.Context(), at, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u", Key: "key"})
			return err == nil && out.Replayed && out.Order.ID == held && out.Order.Status == orders.StatusConfirmed
		})
	}
}
