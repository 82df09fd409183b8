package shop_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

func TestARedisThatTakesNoWritesRaisesNoEpoch(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p)
	must(t, in.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	var attempts atomic.Int64
	p.store.before.Store(new(hook(func(_ context.Context, call string) error {
		if call == "lead" {
			attempts.Add(1)
		}
		return nil
	})))
	must(t, in.rdb.FlushAll(t.Context()).Err())
	eventually(t, "it tried to rebuild the sale", func() bool { return attempts.Load() >= 3 })
	if epoch := in.epoch(sale.ID); epoch != 1 {
		t.Errorf("epoch %d, and nothing could be written", epoch)
	}
	must(t, in.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if out := in.buy(p, sale.ID, "u"); !out.Admitted() {
		t.Errorf("%+v", out)
	}
}

// TestManyEpochsAreLookedAtTogether leaves an order of a dead process in the keys of the first epoch, and 15,000 later attempts
// whose keys were not dropped.
func TestManyEpochsAreLookedAtTogether(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	gone, p := in.start(), in.start()
	sale := in.sale(p)
	placed := in.order(gone, sale.ID, "u", "", 1)
	gone.stop()
	var trips roundTrips
	p.rdb.AddHook(&trips)
	_, err := in.pool.Exec(t.Context(), `UPDATE sales SET epoch = 15000, revision = nextval('sales_revision') WHERE sale = $1`, sale.ID)
	must(t, err)
	if o := in.settled(p, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	in.opened(p, sale.ID, 15001)
	if n := trips.Load(); n > 2000 {
		t.Errorf("%d round trips for a recovery after 15,000 attempts", n)
	}
	eventually(t, "the first epoch's keys are dropped", func() bool {
		left, err := in.rdb.Keys(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:*").Result()
		return err == nil && len(left) == 0
	})
}

// roundTrips counts the round trips of a client.
type roundTrips struct{ atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmds)
	}
}
