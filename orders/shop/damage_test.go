package shop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// TestAServerThatDoesNotSayWhichItIs has lost nothing: changes wait for it, and no sale is rebuilt.
func TestAServerThatDoesNotSayWhichItIs(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, silent := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) {
		s.Items = append(s.Items, orders.Item{ID: "hat", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1})
	})
	calls := make(chan string, 1000)
	record := hook(func(_ context.Context, call string) error { calls <- call; return nil })
	silent.store.before.Store(&record)
	silent.rdb.AddHook(fails{"info"})
	if _, err := silent.SetSwitch(t.Context(), sale.ID, orders.SwitchPaused); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	for seconds := 0; seconds < 3; {
		switch <-calls {
		case "installation": // once a second, before the sales are compared
			seconds++
		case "lead":
			t.Fatal("a sale is rebuilt")
		}
	}
	silent.store.before.Store(nil)
}

// TestAnEarlierStateOfRedisIsNoticed: the server follows another one for a moment, which has an earlier state. Its run id stays the same.
func TestAnEarlierStateOfRedisIsNoticed(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"of many orders": 20, "of one order, in whose place another process writes one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			ps := []*process{in.start(), in.start()}
			sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 60 })
			accepted := in.accept(ps[0], sale.ID, "early", 10)

			copied := server.StartReplica()
			behind := client(t, copied.URL())
			t.Cleanup(func() { _ = behind.Close() })
			must(t, behind.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
			for i := range lost {
				accepted = append(accepted, in.accept(ps[i%2], sale.ID, fmt.Sprint("lost-", i), 1)...)
			}
			host, port, _ := strings.Cut(copied.Addr(), ":")
			must(t, in.rdb.Do(t.Context(), "REPLICAOF", host, port).Err())
			eventually(t, "the server has the earlier state", func() bool {
				info, err := in.rdb.Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "master_link_status:up")
			})
			must(t, in.rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())

			for i := range lost {
				accepted = append(accepted, in.accept(ps[(i+1)%2], sale.ID, fmt.Sprint("late-", i), 1)...)
			}
			in.opened(ps[0], sale.ID, 2)
			in.opened(ps[1], sale.ID, 2)
			for i := range lost { // a repeat finds the order, and is given no other
				user := fmt.Sprintf("lost-%d-0", i)
				if out := in.buy(ps[(i+1)%2], sale.ID, user); !slices.Contains(accepted, out.Order.ID) {
					t.Errorf("%s has got a second order: %+v", user, out)
				}
			}
			in.work(ps[0])
			accepted = append(accepted, in.sellOut(ps[1], sale.ID, "last")...)
			if confirmed, late := in.outcomes(ps[0], accepted); confirmed != 60 || late != 0 {
				t.Errorf("%d confirmed and %d late of 60 units", confirmed, late)
			}
			in.balanced(ps[0], sale.ID)
		})
	}
}

// collections are the names of an item's keys.
var collections = []string{"item", "returned", "pending", "outbox", "keys", "buyers", "holders", "turns"}

// TestADamagedItemIsRebuilt: whatever happens to one key of an item, its sale is rebuilt, no order is lost, and no unit. Other sales go on.
func TestADamagedItemIsRebuilt(t *testing.T) {
	t.Parallel()
	type damage struct {
		what string
		do   func(ctx context.Context, rdb redis.UniversalClient, prefix string) error
	}
	var all []damage
	for _, key := range collections {
		all = append(all, damage{"the key " + key + " is lost", func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
			return rdb.Del(ctx, prefix+key).Err()
		}}, damage{"the key " + key + " is another value", func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
			return rdb.Set(ctx, prefix+key, "x", 0).Err()
		}})
	}
	for _, field := range []string{"next", "stock", "writes", "forget", "switch"} {
		all = append(all, damage{"the item has no field " + field, func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
			return rdb.HDel(ctx, prefix+"item", field).Err()
		}})
	}
	for _, field := range []string{"next", "quota", "writes"} {
		all = append(all, damage{"the field " + field + " is no number", func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
			return rdb.HSet(ctx, prefix+"item", field, "many").Err()
		}})
	}
	all = append(all, damage{"a returned unit is no number", func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
		return rdb.SAdd(ctx, prefix+"returned", "x").Err()
	}}, damage{"the leader is another value", func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
		if err := rdb.Set(ctx, strings.TrimSuffix(prefix, "1:")+"lead", "x", 0).Err(); err != nil {
			return err
		}
		return rdb.Del(ctx, prefix+"item").Err()
	}})
	in := install(t)
	p := in.start()
	other := in.sale(p)
	for _, d := range all {
		t.Run(d.what, func(t *testing.T) {
			in := *in
			in.t = t
			sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 12 })
			accepted := in.accept(p, sale.ID, "early", 5)
			must(t, d.do(t.Context(), in.rdb, in.namespace+":{"+sale.ID+":shoe}:1:"))
			accepted = append(accepted, in.accept(p, sale.ID, "early", 5)...) // repeats, which meet the damage
			if again := accepted[5:]; !slices.Equal(again, accepted[:5]) {
				t.Errorf("repeats got %v, want %v", again, accepted[:5])
			}
			in.accept(p, other.ID, "at-once", 1)
			accepted = append(accepted[:5], in.sellOut(p, sale.ID, "late")...)
			in.opened(p, sale.ID, 2)
			stop := in.work(p)
			defer stop()
			if confirmed, late := in.outcomes(p, accepted); confirmed != 12 || late != 0 {
				t.Errorf("%d confirmed and %d late of 12 units", confirmed, late)
			}
			in.balanced(p, sale.ID)
			in.everyKeyIsWhole(sale.ID)
		})
	}
}

// TestAnEntryThatCannotBeReadIsRebuilt: everything else of the item is in order.
func TestAnEntryThatCannotBeReadIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"buyers", "keys"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			in := install(t)
			p, q := in.start(), in.start()
			sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 2 })
			first := in.order(p, sale.ID, "ada", "one", 1).Order.ID
			hash := in.namespace + ":{" + sale.ID + ":shoe}:1:" + key
			fields, err := in.rdb.HKeys(t.Context(), hash).Result()
			must(t, err)
			for _, field := range slices.DeleteFunc(fields, func(f string) bool { return f == "-" }) {
				must(t, in.rdb.HSet(t.Context(), hash, field, "many").Err())
			}
			again := in.order(q, sale.ID, "ada", "one", 1).Order.ID // by a process that does not remember it
			second := in.order(q, sale.ID, "ada", "two", 1).Order.ID
			in.opened(p, sale.ID, 2)
			if again != first {
				t.Errorf("a repeat got order %s, want %s", again, first)
			}
			in.work(p)
			if confirmed, _ := in.outcomes(p, []orders.ID{first, second}); confirmed != 2 {
				t.Errorf("%d confirmed of 2", confirmed)
			}
			in.balanced(p, sale.ID)
		})
	}
}

// everyKeyIsWhole fails the test unless every key of the sale's item is there in the latest epoch, with its sentinel and an expiry.
func (in *installation) everyKeyIsWhole(sale string) {
	in.t.Helper()
	prefix := fmt.Sprintf("%s:{%s:shoe}:%d:", in.namespace, sale, in.epoch(sale))
	for _, key := range collections {
		if ttl := in.rdb.PTTL(in.t.Context(), prefix+key).Val(); ttl <= 0 {
			in.t.Errorf("%s expires in %v", key, ttl)
		}
	}
	_, err := in.rdb.Pipelined(in.t.Context(), func(p redis.Pipeliner) error {
		p.SIsMember(in.t.Context(), prefix+"returned", "-")
		for _, key := range []string{"pending", "keys", "buyers", "turns"} {
			p.HGet(in.t.Context(), prefix+key, "-")
		}
		p.ZScore(in.t.Context(), prefix+"outbox", "-")
		p.LPos(in.t.Context(), prefix+"holders", "-", redis.LPosArgs{})
		return nil
	})
	must(in.t, err)
}

// TestASaleThatCannotBeReadIsNamed: while Redis refuses to answer for a sale, the process says so, and that it does not serve if there is no
// other sale.
func TestASaleThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p)
	condition := func() *orders.Condition {
		list := p.Conditions(t.Context())
		i := slices.IndexFunc(list, func(c orders.Condition) bool { return c.Cause == orders.CauseSales })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-hlen").Err())
	eventually(t, "the sale is named", func() bool {
		c := condition()
		return c != nil && c.Serves && strings.Contains(c.Detail, "cannot be read in Redis: "+sale.ID)
	})
	eventually(t, "the process does not serve", func() bool {
		c := condition()
		return c != nil && !c.Serves && p.Ready(t.Context()) != nil
	})
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "+hlen").Err())
	eventually(t, "all is well again", func() bool { return condition() == nil && p.Ready(t.Context()) == nil })
	if epoch := in.epoch(sale.ID); epoch != 1 {
		t.Errorf("epoch %d: nothing was lost", epoch)
	}
	in.accept(p, sale.ID, "u", 1)
}

// TestVerifyHasWhatRedisForgotRebuilt: entries that no request needs, and that no script misses.
func TestVerifyHasWhatRedisForgotRebuilt(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"buyers", "keys"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			in := install(t)
			p := in.start()
			in.work(p)
			sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 2 })
			in.settled(p, in.order(p, sale.ID, "ada", "key", 2).Order.ID)
			in.balanced(p, sale.ID)
			in.loses(in.namespace + ":{" + sale.ID + ":shoe}:1:" + key)
			stop := in.run(func(ctx context.Context) error {
				err := p.VerifyInBackground(ctx, func(string, []orders.Check, time.Time) {})
				if ctx.Err() != nil {
					return nil
				}
				return err
			})
			t.Cleanup(stop)
			in.opened(p, sale.ID, 2)
			in.verified(p, sale.ID)
		})
	}
}

// TestAnOperatorRebuildsASale that looks in order.
func TestAnOperatorRebuildsASale(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	accepted := in.accept(p, sale.ID, "u", 3)
	in.answered("the sale is rebuilt", func() error {
		status, err := p.RebuildSale(t.Context(), sale.ID)
		if err == nil && (status.Epoch != 2 || status.State != orders.StateOpen || status.Free["shoe"] != 7) {
			t.Errorf("%+v", status)
		}
		return err
	})
	in.work(p)
	if confirmed, _ := in.outcomes(p, accepted); confirmed != 3 {
		t.Errorf("%d confirmed of 3", confirmed)
	}
	in.balanced(p, sale.ID)
}

// TestKeysThatRedisEvictsAreMissed: the policy is changed while the program runs, and Redis drops keys of an item.
func TestKeysThatRedisEvictsAreMissed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 200 })
	accepted := in.accept(p, sale.ID, "early", 100)
	says := func(text string) func() bool {
		return func() bool {
			return slices.ContainsFunc(p.Conditions(t.Context()), func(c orders.Condition) bool {
				return c.Cause == orders.CauseEviction && c.Serves && strings.Contains(c.Detail, text)
			})
		}
	}
	set := func(name, value string) { must(t, in.rdb.ConfigSet(t.Context(), name, value).Err()) }
	set("maxmemory-policy", "volatile-random")
	eventually(t, "the policy is reported", says("maxmemory-policy is volatile-random"))
	set("maxmemory", "1")
	eventually(t, "Redis has evicted keys of the item", func() bool {
		n, err := in.rdb.Exists(t.Context(), p.LedKeys(sale.ID, "shoe", 1)...).Result()
		return err == nil && n < 9
	})
	set("maxmemory", "0")
	set("maxmemory-policy", "noeviction")
	eventually(t, "the loss is reported", says("keys because its memory is full"))
	in.opened(p, sale.ID, 2)
	eventually(t, "all is well again", func() bool { return len(p.Conditions(t.Context())) == 0 })
	in.work(p)
	accepted = append(accepted, in.sellOut(p, sale.ID, "late")...)
	if confirmed, late := in.outcomes(p, accepted); confirmed != 200 || late != 0 {
		t.Errorf("%d confirmed and %d late of 200 units", confirmed, late)
	}
	in.balanced(p, sale.ID)
}
