package shop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestNobodyIsLeftOutWhenTheDatabaseWasAway: the database was down for longer than leaders wait for a process, and Redis was
// lost meanwhile. The first process that is back waits for the others.
func TestNobodyIsLeftOutWhenTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	for name, hours := range map[string]int{"for seconds": 0, "for an hour by its clock": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseAway(t, hours)
		})
	}
}

func databaseAway(t *testing.T, hours int) {
	in := installOn(t, testenv.StartRedis(t).URL())
	first, second := in.start(), in.start()
	sale := in.sale(first, func(s *orders.Sale) { s.Items[0].Stock = 6 })
	placed := append(in.accept(first, sale.ID, "early-0", 3), in.accept(second, sale.ID, "early-1", 3)...)
	in.loseTasks(6)
	first.store.fails()
	second.store.fails()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	if hours > 0 {
		_, err := in.pool.Exec(t.Context(), `UPDATE processes SET beats_at = now() - $1 * interval '1 hour'`, hours)
		must(t, err)
	}
	away := time.NewTimer(liveness.Silence + time.Second)
	defer away.Stop()
	<-away.C
	raised := make(chan struct{})
	raise := sync.OnceFunc(func() { close(raised) })
	first.store.after.Store(new(hook(func(_ context.Context, call string) error {
		if call == "raise epoch" {
			raise()
		}
		return nil
	})))
	first.store.before.Store(nil)
	arrives(t, "the first process that is back leads", raised)
	time.AfterFunc(time.Second, second.store.heals)
	in.work(first)
	placed = append(placed, in.sellOut(first, sale.ID, "late")...)
	if confirmed, late := in.outcomes(first, placed); confirmed != 6 || late != 0 {
		t.Errorf("%d confirmed and %d too late of %d orders and 6 units", confirmed, late, len(placed))
	}
	in.balanced(first, sale.ID)
}

// TestAClockOfTheDatabaseThatWasSetMakesNobodyAlive: a changed clock makes no dead process alive, and no live process silent.
func TestAClockOfTheDatabaseThatWasSetMakesNobodyAlive(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	leader, lives := in.start(), in.start()
	lives.follows()
	sale := in.sale(leader, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	placed := in.accept(lives, sale.ID, "early", 3)
	in.loseTasks(3)
	// A process that died, and whose last heartbeat was sent when the clock was a year ahead.
	_, err := in.pool.Exec(t.Context(), `INSERT INTO processes (process, beats, beats_at, commits, host, addr, program) VALUES (gen_random_uuid(), 1, now() + interval '1 year', true, '', '', '')`)
	must(t, err)
	_, acknowledge := holds(&lives.store.before, "acknowledge")
	t.Cleanup(acknowledge)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	eventually(t, "the leader waits", func() bool { return in.epoch(sale.ID) == 2 })
	_, err = in.pool.Exec(t.Context(), `UPDATE processes SET beats_at = now() - interval '1 year'`)
	must(t, err)
	acknowledge()
	in.opened(leader, sale.ID, 2)
	in.work(leader)
	placed = append(placed, in.sellOut(leader, sale.ID, "late")...)
	if confirmed, late := in.outcomes(leader, placed); confirmed != 3 || late != 0 {
		t.Errorf("%d confirmed and %d too late of %d orders and 3 units", confirmed, late, len(placed))
	}
	if n := in.count(`SELECT count(*) FROM processes`); n != 2 {
		t.Errorf("%d processes on the process list, want the two that live", n)
	}
}

// TestAProcessWithoutAHeartbeatPromisesNothing until a heartbeat reaches the database again. It confirms orders that it
// accepted before only if Redis or the database has them: the sale may have been recovered without it, and the buyer may have
// got another order.
func TestAProcessWithoutAHeartbeatPromisesNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	mute, other := in.start(), in.start()
	sale := in.sale(other)
	early := in.accept(mute, sale.ID, "early", 2)
	mute.store.fails("beat")
	began := time.Now()
	eventually(t, "it refuses", func() bool {
		_, err := attempt(t.Context(), mute, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 11, User: "asks"})
		return errors.Is(err, orders.ErrUnavailable)
	})
	if took := time.Since(began); took > liveness.Silence {
		t.Errorf("it promised for %v without a heartbeat; others wait for %v", took, liveness.Silence)
	}
	if err := mute.Ready(t.Context()); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("readiness is %v", err)
	}
	repeat := func(buyer string) (orders.Outcome, error) {
		mute.ReadClock(time.Now().Add(-time.Hour)) // of a server whose clock is behind: all orders look as if they had just been accepted
		return attempt(t.Context(), mute, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: buyer})
	}
	if out, err := repeat("early-0"); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("a repeat of what it accepted before: %+v, %v; want ErrUnavailable", out, err)
	}
	in.accept(other, sale.ID, "other", 1) // a process with a heartbeat goes on
	mute.store.heals()
	in.accept(mute, sale.ID, "again", 1)
	found := func(which string) {
		t.Helper()
		if out, err := repeat("early-0"); err != nil || !out.Replayed || out.Order.ID != early[0] {
			t.Errorf("a repeat after the silence, of what %s has: %+v, %v", which, out, err)
		}
	}
	found("Redis")
	keys := mute.LedKeys(sale.ID, "shoe", 1)
	in.loses(keys[slices.IndexFunc(keys, func(k string) bool { return strings.HasSuffix(k, ":keys") })])
	found("this lease")
	if out, err := repeat("early-1"); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("a repeat after the silence, of what only the process has: %+v, %v; want ErrUnavailable", out, err)
	}
	in.work(other)
	in.settled(other, early[1])
	if out := in.buy(mute, sale.ID, "early-1"); !out.Replayed || out.Order.ID != early[1] {
		t.Errorf("a repeat of what the database has: %+v", out)
	}
}

// TestAnAnswerFromBeforeASilencePromisesNothing: Redis replies, the process is stopped for so long that a recovery could have
// run without it, and its first heartbeat comes before it reads the reply.
func TestAnAnswerFromBeforeASilencePromisesNothing(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start(func(o *shop.Options) { o.Timeout = time.Minute })
	sale := in.sale(p)
	in.accept(p, sale.ID, "early", 1) // Redis has the script from here on
	answered, look := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(look) })
	t.Cleanup(goOn)
	p.rdb.AddHook(around{word: in.namespace + ":{" + sale.ID + ":shoe}:1:pending", after: sync.OnceFunc(func() { close(answered); <-look })})
	asked := make(chan error, 1)
	go func() {
		_, err := attempt(context.WithoutCancel(t.Context()), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"})
		asked <- err
	}()
	arrives(t, "Redis has answered", answered)
	p.store.fails("beat")
	ended := time.NewTimer(liveness.LeaseFor)
	defer ended.Stop()
	<-ended.C
	p.store.heals()
	beats := make(chan struct{}, 100)
	p.store.after.Store(new(hook(func(_ context.Context, call string) error {
		if call == "beat" {
			beats <- struct{}{}
		}
		return nil
	})))
	<-beats // the next one comes when this one has been recorded
	<-beats
	goOn()
	if err := <-asked; !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("%v; want ErrUnavailable", err)
	}
}

// TestLateOrdersAreReadmittedBeforeTheSaleOpens: later buyers do not get the unit that is left for them.
func TestLateOrdersAreReadmittedBeforeTheSaleOpens(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	leader, other := in.start(), in.start()
	other.follows()
	sale := in.sale(leader, func(s *orders.Sale) { s.Items[0].Stock = 2 })
	promised := in.accept(other, sale.ID, "early", 1)
	in.loseTasks(1)
	record, err := in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", promised[0].String()).Result()
	must(t, err)
	// Another order has its unit.
	owner, err := orders.ParseReservation([]byte(record))
	must(t, err)
	owner.ID[15]++
	owner.BuyerHash = "owner"
	_, err = in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(leader, sale.ID, 2)
	if out := in.buy(leader, sale.ID, "late"); out.Reason != orders.ReasonSoldOut { // no worker has run yet
		t.Errorf("a buyer who came afterwards: %+v", out)
	}
	if confirmed, late := in.outcomes(leader, promised); confirmed != 1 {
		t.Errorf("the promise is too late: %d", late)
	}
	in.work(leader)
	in.balanced(leader, sale.ID)
	if n := in.count(`SELECT count(*) FROM recovery_late`); n != 0 {
		t.Errorf("%d late orders are left", n)
	}
}

// TestAServerThatWasRestartedHandsOutNoUnits to an order that lost its own.
func TestAServerThatWasRestartedHandsOutNoUnits(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendfsync", "always")
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p)
	id := in.accept(p, sale.ID, "u", 1)[0]
	item := in.namespace + ":{" + sale.ID + ":shoe}:1:"
	record, err := in.rdb.HGet(t.Context(), item+"pending", id.String()).Result()
	must(t, err)
	owner, err := orders.ParseReservation([]byte(record))
	must(t, err)
	owner.ID[15]++
	owner.BuyerHash = "owner"
	_, err = in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	p.follows()
	server.Kill()
	server.Restart()
	in.work(p)
	// The worker finds the unit taken, and asks this server for another one: then it tries to reserve the order again.
	refused := make(chan struct{})
	refuse := sync.OnceFunc(func() { close(refused) })
	var commits atomic.Int64
	p.store.after.Store(new(hook(func(_ context.Context, call string) error {
		switch {
		case call == "commit":
			if commits.Add(1) > 1 {
				refuse()
			}
		case call == "statuses" && commits.Load() > 0:
			refuse()
		}
		return nil
	})))
	arrives(t, "the order is refused a unit", refused)
	if next, err := in.rdb.HGet(t.Context(), item+"item", "next").Int(); err != nil || next != 1 {
		t.Errorf("the restarted server has handed out %d units, %v; want the 1 of before", next, err)
	}
	p.store.heals()
	p.mayLead()
	if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	if epoch := in.count(`SELECT epoch FROM orders WHERE order_id = $1`, id.String()); epoch < 2 { // more if a recovery was begun again
		t.Errorf("the order has units of epoch %d, want those of a recovery", epoch)
	}
	in.balanced(p, sale.ID)
}

// TestHeartbeatsNeedNoConnectionOfThePool, because there may be no free one for a long time.
func TestHeartbeatsNeedNoConnectionOfThePool(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.Redis(t))
	p := in.start()
	sale := in.sale(p)
	for range in.pool.Config().MaxConns {
		conn, err := in.pool.Acquire(t.Context())
		must(t, err)
		t.Cleanup(conn.Release)
	}
	held := time.NewTimer(liveness.LeaseFor + time.Second)
	defer held.Stop()
	<-held.C
	if out := in.order(p, sale.ID, "u", "", 1); !out.Admitted() {
		t.Errorf("%+v", out)
	}
}
