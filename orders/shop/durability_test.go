package shop_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

func keeping(d shop.Durability) func(*shop.Options) {
	return func(o *shop.Options) { o.Durability = d }
}

func TestDurabilityIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	check := func(d shop.Durability) error {
		p := in.start(keeping(d))
		defer p.stop()
		var err error
		in.answered("the durability is checked", func() error {
			if err = p.CheckDurability(t.Context()); errors.Is(err, orders.ErrUnavailable) {
				return err
			}
			return nil
		})
		return err
	}
	for _, c := range []struct {
		settings string // of the server
		fits     []shop.Durability
		set      map[shop.Durability]string // settings that the error must ask for
	}{
		{"appendonly no appendfsync everysec", nil, map[shop.Durability]string{
			shop.DurabilityEverysec: "appendonly yes", shop.DurabilityFsync: "appendonly yes",
		}},
		{"appendonly yes appendfsync no", nil, map[shop.Durability]string{
			shop.DurabilityEverysec: "appendfsync everysec", shop.DurabilityFsync: "appendfsync always",
		}},
		{"appendfsync everysec", []shop.Durability{shop.DurabilityEverysec}, map[shop.Durability]string{
			shop.DurabilityFsync: "appendfsync always",
		}},
		{"appendfsync always", []shop.Durability{shop.DurabilityEverysec, shop.DurabilityFsync}, nil},
		{"no-appendfsync-on-rewrite yes", nil, map[shop.Durability]string{
			shop.DurabilityEverysec: "set it to no", shop.DurabilityFsync: "set it to no",
		}},
		{"no-appendfsync-on-rewrite no maxmemory 1gb", []shop.Durability{shop.DurabilityEverysec, shop.DurabilityFsync}, nil},
	} {
		words := strings.Fields(c.settings)
		for i := 0; i < len(words); i += 2 {
			must(t, in.rdb.ConfigSet(t.Context(), words[i], words[i+1]).Err())
		}
		for _, d := range append(c.fits, "", shop.DurabilityMemory) {
			if err := check(d); err != nil {
				t.Errorf("%s, %q: %v", c.settings, d, err)
			}
		}
		for d, set := range c.set {
			if err := check(d); err == nil || !strings.Contains(err.Error(), set) {
				t.Errorf("%s, %s: %v, and should say %q", c.settings, d, err, set)
			}
		}
		if err := check(shop.DurabilityReplicated); err == nil || !strings.Contains(err.Error(), "replica") {
			t.Errorf("replicated without a replica: %v", err)
		}
	}
	server.StartReplica()
	must(t, check(shop.DurabilityReplicated))
	evicts := func(maxmemory, policy string) {
		t.Helper()
		for _, d := range []shop.Durability{"", shop.DurabilityMemory, shop.DurabilityFsync, shop.DurabilityReplicated} {
			if err := check(d); !errors.Is(err, orders.ErrDurability) || !strings.Contains(err.Error(), "set maxmemory-policy noeviction there in place of "+policy) {
				t.Errorf("%q over a Redis with maxmemory %s that evicts by %s: %v", d, maxmemory, policy, err)
			}
		}
	}
	for _, maxmemory := range []string{"0", "1gb"} {
		must(t, in.rdb.ConfigSet(t.Context(), "maxmemory", maxmemory).Err())
		for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
			must(t, in.rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
			evicts(maxmemory, policy)
		}
	}
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err()) // INFO says it too
	evicts("1gb", "volatile-ttl")
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "+config").Err())
	must(t, in.rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	must(t, in.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err())
	must(t, check(shop.DurabilityFsync)) // it cannot be checked
}

func TestReplicatedPromisesWhatAReplicaHas(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	replica := server.StartReplica()
	in := installOn(t, server.URL())
	p := in.start(keeping(shop.DurabilityReplicated), func(o *shop.Options) { o.Timeout = 300 * time.Millisecond })
	in.answered("the durability is checked", func() error { return p.CheckDurability(t.Context()) })
	sale := in.sale(p)
	first := in.buy(p, sale.ID, "first")
	if !first.Admitted() {
		t.Fatalf("%+v", first)
	}

	// Two if the response came too late and the order was repeated.
	eventually(t, "the first is queued, and nothing else writes", func() bool { return in.queued() > 0 })

	replica.Stop()
	var written testenv.Written
	for i := range 3 {
		// A repetition finds the reservation in Redis, which does not suffice for it either. Since Redis 7.2 a WAIT covers the
		// caller's own writes, so the caller has to write something.
		out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "second"})
		if !errors.Is(err, orders.ErrUnavailable) {
			t.Fatalf("while the replica is frozen: %+v, %v; want ErrUnavailable", out, err)
		}
		before := written
		if written = server.Written(); i > 0 && written == before {
			t.Error("a repetition waited for nothing of its own")
		}
	}
	if out := in.order(p, sale.ID, "first", "", 1); out.Order.ID != first.Order.ID {
		t.Errorf("what was promised before: %+v", out)
	}

	replica.Continue()
	second := in.buy(p, sale.ID, "second")
	if !second.Admitted() || !second.Replayed {
		t.Errorf("%+v, want the reservation that was made while the replica was frozen", second)
	}
	in.work(p)
	for _, out := range []orders.Outcome{first, second} {
		if o := in.settled(p, out.Order.ID); o.Status != orders.StatusConfirmed {
			t.Errorf("%+v", o)
		}
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestWhatAReplicaHasNeedsNoProcess disconnects the replica, and kills the master and the process that accepted orders until
// then: the replica has every accepted order.
func TestWhatAReplicaHasNeedsNoProcess(t *testing.T) {
	t.Parallel()
	s := testenv.StartSentinel(t)
	in := installOn(t, "redis+sentinel://"+strings.Join(s.Sentinels, ",")+"/"+s.Master)
	p := in.start(keeping(shop.DurabilityReplicated), func(o *shop.Options) { o.Timeout = 200 * time.Millisecond })
	in.answered("the durability is checked", func() error { return p.CheckDurability(t.Context()) })
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1_000_000 })
	master := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer master.Close()
	var promised []orders.ID
	taken, refused := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; master.Ping(t.Context()).Err() == nil; i++ {
			out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint("user-", i)})
			switch {
			case err != nil:
				refused++
			case out.Admitted():
				if promised = append(promised, out.Order.ID); len(promised) == 20 {
					close(taken)
				}
			}
		}
		p.stop()
	})
	<-taken
	s.FailOver(500 * time.Millisecond)
	wg.Wait()
	if refused == 0 {
		t.Error("no order was asked for while the replica was cut off")
	}
	q := in.start(keeping(shop.DurabilityReplicated))
	in.work(q)
	for _, id := range promised {
		if o := in.settled(q, id); o.Status != orders.StatusConfirmed {
			t.Fatalf("%+v", o)
		}
	}
	t.Logf("%d promised, %d refused", len(promised), refused)
}

// TestReplicatedCallersShareTheWaiting has many concurrent callers, and removes the script from Redis in between.
func TestReplicatedCallersShareTheWaiting(t *testing.T) {
	t.Parallel()
	const callers, each = 50, 4
	server := testenv.StartRedis(t)
	server.StartReplica()
	in := installOn(t, server.URL())
	p := in.start(keeping(shop.DurabilityReplicated))
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = callers*each - 10 })
	must(t, in.rdb.ScriptFlush(t.Context()).Err())
	ids := make([][]orders.ID, callers)
	var g errgroup.Group
	for c := range callers {
		g.Go(func() error {
			for i := range each {
				out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(c, "-", i)})
				if err != nil {
					return err
				}
				if out.Admitted() {
					ids[c] = append(ids[c], out.Order.ID)
				} else if out.Reason != orders.ReasonSoldOut {
					return fmt.Errorf("%+v", out)
				}
			}
			return nil
		})
	}
	must(t, g.Wait())
	sold := 0
	for _, of := range ids {
		for _, id := range of {
			sold++
			if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
				t.Errorf("%+v", o)
			}
		}
	}
	if want := callers*each - 10; sold != want {
		t.Errorf("%d of %d sold", sold, want)
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestWhatWasNotFlushedComesBackFromTheProcess: a machine crash loses unflushed data with everysec; the process still has the
// orders.
func TestWhatWasNotFlushedComesBackFromTheProcess(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendfsync", "everysec")
	in := installOn(t, server.URL())
	p := in.start(keeping(shop.DurabilityEverysec))
	in.answered("the durability is checked", func() error { return p.CheckDurability(t.Context()) })
	sale := in.sale(p)
	flushed := server.Written()
	placed := in.order(p, sale.ID, "u", "", 1)
	server.Kill()
	server.Truncate(flushed)
	server.Restart()
	in.work(p)
	if o := in.settled(p, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	in.buy(p, sale.ID, "later") // once the sale is open again
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestWhatWasFlushedNeedsNoProcess crashes Redis' machine right after the acceptance, and the process with it.
func TestWhatWasFlushedNeedsNoProcess(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendfsync", "always")
	in := installOn(t, server.URL())
	p := in.start(keeping(shop.DurabilityFsync))
	in.answered("the durability is checked", func() error { return p.CheckDurability(t.Context()) })
	sale := in.sale(p)
	placed := in.order(p, sale.ID, "u", "", 1)
	flushed := server.Written()
	server.Kill() // before the process, which would commit what it remembers
	p.stop()
	server.Truncate(flushed)
	server.Restart()
	q := in.start(keeping(shop.DurabilityFsync))
	in.work(q)
	if o := in.settled(q, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	in.buy(q, sale.ID, "later") // once the sale is open again
	eventually(t, "all is settled", func() bool { return in.verified(q, sale.ID) == 0 })
}
