package shop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// TestASaleOnACluster sells items that live on different masters.
func TestASaleOnACluster(t *testing.T) {
	t.Parallel()
	nodes := testenv.RedisCluster(t)
	in := installOn(t, "redis://"+strings.Join(nodes, ","))
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) {
		for i := range 12 {
			s.Items = append(s.Items, orders.Item{ID: fmt.Sprint("item-", i), Stock: 3, QuotaPerBuyer: 1, InFlightMax: 10})
		}
	})
	var ids []orders.ID
	for _, it := range sale.Items[1:] {
		for user := range 5 {
			out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: it.ID, Quantity: 1, User: fmt.Sprint(user)})
			must(t, err)
			if out.Admitted() != (user < 3) {
				t.Errorf("item %s, buyer %d: %+v", it.ID, user, out)
			}
			if out.Admitted() {
				ids = append(ids, out.Order.ID)
			}
		}
	}
	for _, id := range ids {
		if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
			t.Errorf("order %+v", o)
		}
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestAPromotedReplicaTakesNoOrderOfTheOldEpoch connects to the replica before its promotion, so that no new connection reveals
// that another server answers.
func TestAPromotedReplicaTakesNoOrderOfTheOldEpoch(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartFailoverCluster(t, 10*time.Second)
	in := installOn(t, "redis://"+strings.Join(cluster.Addrs, ","))
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) {
		s.Items[0].Stock = 100_000
		for i := 0; !in.heldBy(cluster.Addrs[0], s.ID, s.Items[0].ID); i++ {
			s.Items[0].ID = fmt.Sprint("shoe-", i)
		}
	})
	user := 0
	buy := func() (orders.Outcome, error) {
		user++
		return attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: sale.Items[0].ID, Quantity: 1, User: fmt.Sprint(user)})
	}
	_, err := buy()
	must(t, err)
	rdb := p.rdb.UniversalClient.(*redis.ClusterClient)
	eventually(t, "all four servers have been met", func() bool {
		var met atomic.Int64
		must(t, rdb.ForEachShard(t.Context(), func(ctx context.Context, server *redis.Client) error {
			met.Add(1)
			return server.Ping(ctx).Err()
		}))
		rdb.ReloadState(t.Context())
		return met.Load() == 4
	})
	eventually(t, "that is known not to matter", func() bool { _, err := buy(); return err == nil })

	cluster.FailOver()
	eventually(t, "orders are taken again", func() bool {
		out, err := buy()
		if err != nil {
			return false
		}
		var epoch int
		must(t, in.pool.QueryRow(t.Context(), `SELECT epoch FROM sales WHERE sale = $1`, sale.ID).Scan(&epoch))
		if out.Admitted() && epoch == 1 {
			t.Fatalf("order %s was taken by another server than the one that was loaded", out.Order.ID)
		}
		return out.Admitted()
	})
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

// TestEveryMasterIsAskedForProcesses has a process that only one master counts: a lost namespace that runs is not taken over.
func TestEveryMasterIsAskedForProcesses(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartFailoverCluster(t, 10*time.Second)
	in := installOn(t, "redis://"+strings.Join(cluster.Addrs, ","))
	for _, addr := range cluster.Addrs {
		one := redis.NewClient(&redis.Options{Addr: addr})
		subscribed := one.Subscribe(t.Context(), in.namespace+":notify")
		_, err := subscribed.Receive(t.Context())
		must(t, err)
		if err := in.opens(postgres.New(in.pool), in.namespace); !errors.Is(err, orders.ErrUnavailable) || !strings.Contains(err.Error(), "1 processes run") {
			t.Errorf("with a process on %s: %v, want ErrUnavailable", addr, err)
		}
		must(t, subscribed.Close())
		must(t, one.Close())
	}
	eventually(t, "it is opened without any", func() bool { return in.opens(postgres.New(in.pool), in.namespace) == nil })
}

// heldBy reports whether a master of a cluster has the keys of an item.
func (in *installation) heldBy(addr, sale, item string) bool {
	in.t.Helper()
	master, err := in.rdb.(*redis.ClusterClient).MasterForKey(in.t.Context(), "{"+sale+":"+item+"}")
	must(in.t, err)
	return master.Options().Addr == addr
}
