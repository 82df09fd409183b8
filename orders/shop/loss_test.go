package shop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// TestAnEarlierMomentPutBackLosesNothing restarts Redis from a snapshot: later data is lost, and deleted data is back.
func TestAnEarlierMomentPutBackLosesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	ps := []*process{in.start(), in.start()}
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 40 })
	placed := in.accept(ps[0], sale.ID, "before", 10)
	snapshot := server.Snapshot()
	stop := in.work(ps[0])
	if confirmed, _ := in.outcomes(ps[0], placed); confirmed != 10 {
		t.Fatalf("%d confirmed", confirmed)
	}
	for _, id := range placed[:3] {
		_, err := ps[1].Cancel(t.Context(), id, all)
		must(t, err)
	}
	for _, id := range placed[3:5] {
		_, err := ps[1].Pay(t.Context(), id, id.String())
		must(t, err)
	}
	after := in.accept(ps[1], sale.ID, "after", 10) // on returned units, too
	stop()
	after = append(after, in.accept(ps[0], sale.ID, "uncommitted", 5)...)
	server.RestartFrom(snapshot)
	in.work(ps[1])
	after = append(after, in.sellOut(ps[1], sale.ID, "late")...)
	if confirmed, late := in.outcomes(ps[0], after); confirmed != 33 || late != 0 {
		t.Errorf("%d confirmed and %d late of %d orders, want 33 and 0", confirmed, late, len(after))
	}
	var statuses []orders.Status
	for _, id := range placed {
		o, err := ps[0].Order(t.Context(), id, all)
		must(t, err)
		statuses = append(statuses, o.Status)
	}
	want := []orders.Status{
		orders.StatusCancelled, orders.StatusCancelled, orders.StatusCancelled, orders.StatusPaid, orders.StatusPaid,
		orders.StatusConfirmed, orders.StatusConfirmed, orders.StatusConfirmed, orders.StatusConfirmed, orders.StatusConfirmed,
	}
	if !slices.Equal(statuses, want) {
		t.Errorf("orders of the snapshot are %v, want %v", statuses, want)
	}
	in.balanced(ps[0], sale.ID)
}

// TestAReplicaThatWasBehindIsPromoted by sentinels, without the latest accepted orders.
func TestAReplicaThatWasBehindIsPromoted(t *testing.T) {
	t.Parallel()
	s := testenv.StartSentinel(t)
	in := installOn(t, "redis+sentinel://"+strings.Join(s.Sentinels, ",")+"/"+s.Master)
	ps := []*process{in.start(), in.start()}
	in.work(ps[0])
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = 1_000_000 })
	var done atomic.Bool
	var accepted []orders.ID
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ { // slowly, because a failover takes seconds
			out, err := attempt(t.Context(), ps[i%2], orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint("user-", i)})
			if err == nil && out.Admitted() {
				accepted = append(accepted, out.Order.ID)
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-t.Context().Done():
				return
			}
		}
	})
	s.FailOver(500 * time.Millisecond)
	eventually(t, "the sale was rebuilt", func() bool { return in.epoch(sale.ID) > 1 })
	in.opened(ps[0], sale.ID, 2)
	in.opened(ps[1], sale.ID, 2)
	done.Store(true)
	wg.Wait()
	accepted = append(accepted, in.accept(ps[0], sale.ID, "later", 5)...)
	if confirmed, late := in.outcomes(ps[0], accepted); confirmed != len(accepted) || late != 0 {
		t.Errorf("%d confirmed and %d late of %d", confirmed, late, len(accepted))
	}
	t.Logf("%d orders, %d epochs", len(accepted), in.epoch(sale.ID))
	in.finishTasks(ps[1], sale.ID)
	in.balanced(ps[0], sale.ID)
}

// finishTasks ends the leases of tasks until none is left: a promoted replica may lack the end of some, and a worker that did not get the
// reply to its dequeue does not know of its task. Asynq only gives such tasks to a worker that starts, or once a minute, and only when
// their lease of 30 s ended 30 s ago.
func (in *installation) finishTasks(p *process, sale string) {
	in.t.Helper()
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if in.endLeases() > 0 {
			stop := in.work(p)
			time.Sleep(time.Second)
			stop()
		}
		checks, err := p.Verify(in.t.Context(), sale)
		if waiting := slices.ContainsFunc(checks, func(c orders.Check) bool { return c.Waiting > 0 }); err == nil && !waiting {
			return
		}
		if time.Since(start) > time.Minute {
			in.t.Fatalf("tasks are left after a minute: %+v, %v", checks, err)
		}
	}
}

// endLeases sets the leases of all tasks to a minute ago and returns how many there are.
func (in *installation) endLeases() (leased int) {
	in.t.Helper()
	for queue := range 4 {
		lease := fmt.Sprintf("asynq:{%s-accepted-%d}:lease", in.namespace, queue)
		tasks, err := in.rdb.ZRange(in.t.Context(), lease, 0, -1).Result()
		must(in.t, err)
		leased += len(tasks)
		for _, id := range tasks {
			ended := redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: id}
			must(in.t, in.rdb.ZAddXX(in.t.Context(), lease, ended).Err())
		}
	}
	return leased
}

// TestALargeSaleReopens: its orders are read in many chunks.
func TestALargeSaleReopens(t *testing.T) {
	t.Parallel()
	const count = 10_000
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = count + 1 })
	in.sold(sale.ID, count)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	if out := in.buy(p, sale.ID, "next"); !out.Admitted() {
		t.Errorf("%+v", out)
	}
	if again := in.buy(p, sale.ID, "one more"); again.Reason != orders.ReasonSoldOut {
		t.Errorf("%+v, want sold_out", again)
	}
}

// BenchmarkReopen measures how long a sale with 100,000 orders in the database is closed after FLUSHALL.
func BenchmarkReopen(b *testing.B) {
	const count = 100_000
	server := testenv.StartRedis(b)
	in := installOn(b, server.URL())
	p := in.start()
	in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = count + b.N })
	in.sold(sale.ID, count)
	b.ResetTimer()
	for i := range b.N {
		must(b, in.rdb.FlushAll(b.Context()).Err())
		if out := in.buy(p, sale.ID, fmt.Sprint("next-", i)); !out.Admitted() {
			b.Errorf("%+v", out)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/reopening")
}

// sold writes orders of one shoe into the database, without Redis.
func (in *installation) sold(sale string, count int) {
	in.t.Helper()
	_, err := in.pool.Exec(in.t.Context(), `
		WITH placed AS (
			INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at, confirmed_at)
			SELECT gen_random_uuid(), $1, 'shoe', 'user-' || n, left(md5(n::text), 22), '', 1, ARRAY[n], 'confirmed', '', 1, now(), now()
			FROM generate_series(1, $2::integer) AS n
			RETURNING order_id, units)
		INSERT INTO order_units (sale, item, unit, order_id) SELECT $1, 'shoe', units[1], order_id FROM placed`, sale, count)
	must(in.t, err)
}

// TestUnitsOnTheirWayBackWhenRedisForgets: units are returned once, either counted as free when the sale is rebuilt, or
// returned afterwards, never both.
func TestUnitsOnTheirWayBackWhenRedisForgets(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p, q := in.start(), in.start()
	q.follows()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 8 })
	stop := in.work(p)
	ids := in.confirmed(p, sale.ID, 8)
	stop()
	cancel := func(id orders.ID) {
		t.Helper()
		_, err := q.Cancel(t.Context(), id, all)
		must(t, err)
	}
	_, err := in.store().Cancel(t.Context(), ids[:1]) // in the old epoch, not returned
	must(t, err)
	q.store.fails("returned")
	cancel(ids[1]) // in the old epoch, returned, and not recorded
	q.store.heals()
	beforeRaise, raise := holds(&p.store.before, "raise epoch")
	t.Cleanup(raise)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	arrives(t, "the leader is about to raise the epoch", beforeRaise)
	cancel(ids[2]) // Redis has lost its data, and the epoch is the old one
	afterRaise, handOver := holds(&p.store.after, "raise epoch")
	t.Cleanup(handOver)
	raise()
	arrives(t, "it has raised the epoch", afterRaise)
	cancel(ids[3]) // in the new epoch, which is not in Redis yet
	beforeLoad, load := holds(&p.store.before, "holdings")
	t.Cleanup(load)
	handOver()
	arrives(t, "it is about to load", beforeLoad)
	cancel(ids[4]) // while it is being loaded, and not counted
	afterLoad, open := holds(&p.store.after, "holdings")
	t.Cleanup(open)
	load()
	arrives(t, "it has loaded", afterLoad)
	cancel(ids[5]) // while it is being loaded, and counted
	open()
	in.opened(q, sale.ID, 2)
	cancel(ids[6]) // afterwards
	in.work(q)
	in.balanced(q, sale.ID)
	if free := in.free(q, sale.ID); free != 7 {
		t.Errorf("%d units free, want 7: one order is left of 8", free)
	}
	if n := len(in.sellOut(q, sale.ID, "late")); n != 7 {
		t.Errorf("%d units sold again, want 7", n)
	}
	in.balanced(q, sale.ID)
}

// TestAProcessThatLeavesHandsOverWhatItRemembers, even after Redis lost it.
func TestAProcessThatLeavesHandsOverWhatItRemembers(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	leaving, other := in.start(), in.start()
	sale := in.sale(other, func(s *orders.Sale) { s.Items[0].Stock = 8 })
	early := in.accept(leaving, sale.ID, "early", 5)
	in.loseTasks(5)
	other.follows() // the sale is not rebuilt until the process has left
	leaving.follows()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	must(t, leaving.Drain(context.WithoutCancel(t.Context())))
	leaving.stop()
	other.mayLead()
	in.work(other)
	if n := len(in.sellOut(other, sale.ID, "late")); n != 3 {
		t.Errorf("%d units sold of the 3 that were left", n)
	}
	if confirmed, late := in.outcomes(other, early); confirmed != 5 {
		t.Errorf("%d confirmed and %d late of 5", confirmed, late)
	}
	in.balanced(other, sale.ID)
}
