package shop_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestADatabaseThatWentBackLosesNothingThatIsRemembered: a standby without the last commits takes over. Orders that were
// confirmed are confirmed again, in an epoch above all known ones.
func TestADatabaseThatWentBackLosesNothingThatIsRemembered(t *testing.T) {
	t.Parallel()
	server, database := testenv.StartRedis(t), testenv.StartPostgres(t)
	in := installIn(t, server.URL(), database.URL())
	regressions := make(chan struct{}, 100)
	measured := func(o *shop.Options) { o.Measures.Regressed = func() { regressions <- struct{}{} } }
	p, q := in.start(measured), in.start(measured)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 12 })
	stop := in.work(p)
	early := in.confirmed(p, sale.ID, 4)
	snapshot := database.Snapshot()
	in.ready()
	placed := append(early, in.accept(p, sale.ID, "lost-p", 3)...)
	placed = append(placed, in.accept(q, sale.ID, "lost-q", 3)...)
	if confirmed, _ := in.outcomes(p, placed); confirmed != 10 {
		t.Fatalf("%d confirmed", confirmed)
	}
	if out := in.buy(p, sale.ID, "paid"); true {
		in.settled(p, out.Order.ID)
		placed = append(placed, out.Order.ID)
	}
	stop()
	database.RestartFrom(snapshot)
	in.work(q)
	in.opened(q, sale.ID, 2)
	in.opened(p, sale.ID, 2)
	in.ready()
	select {
	case <-regressions:
	default:
		t.Error("nobody noticed")
	}
	if confirmed, late := in.outcomes(q, placed); confirmed != 11 || late != 0 {
		t.Errorf("%d confirmed and %d late of 11 that were confirmed before", confirmed, late)
	}
	if n := len(in.sellOut(q, sale.ID, "next")); n != 1 {
		t.Errorf("%d units sold of the one that was left", n)
	}
	in.balanced(q, sale.ID)
}

// ready waits until every process accepts orders.
func (in *installation) ready() {
	in.t.Helper()
	for _, p := range in.processes {
		eventually(in.t, "a process is ready", func() bool { return p.Ready(in.t.Context()) == nil })
	}
}

// TestAnEpochThatTheDatabaseForgotIsNotUsedAgain: the raise of the last recovery is lost, and Redis has orders that were
// accepted in it.
func TestAnEpochThatTheDatabaseForgotIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]string{"the processes know": "processes", "only Redis knows": "redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			var regressions atomic.Int64
			measured := func(o *shop.Options) { o.Measures.Regressed = func() { regressions.Add(1) } }
			p := in.start(measured)
			sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 5 })
			must(t, in.rdb.FlushAll(t.Context()).Err())
			in.opened(p, sale.ID, 2)
			in.accept(p, sale.ID, "early", 2)
			if who == "redis" {
				must(t, p.Drain(t.Context()))
				p.stop()
			}
			_, err := in.pool.Exec(t.Context(), `UPDATE sales SET epoch = 1, epoch_floor = 1, epoch_token = '', revision = nextval('sales_revision') WHERE sale = $1`, sale.ID)
			must(t, err)
			if who == "redis" {
				p = in.start(measured)
			}
			in.opened(p, sale.ID, 3)
			if regressions.Load() == 0 {
				t.Error("it is not counted that the database went back in time")
			}
			in.work(p)
			if n := len(in.sellOut(p, sale.ID, "next")); n != 3 {
				t.Errorf("%d units sold of the 3 that were left", n)
			}
			in.balanced(p, sale.ID)
		})
	}
}

// TestAnotherLeadersEpochOfTheSameNumberIsNoticed: the database went back, and another process raised the sale to a number that
// this one has seen before.
func TestAnotherLeadersEpochOfTheSameNumberIsNoticed(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	var regressions atomic.Int64
	p := in.start(func(o *shop.Options) { o.Measures.Regressed = func() { regressions.Add(1) } })
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 5 })
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(p, sale.ID, 2)
	placed := in.accept(p, sale.ID, "early", 2)
	_, err := in.pool.Exec(t.Context(), `UPDATE sales SET epoch_floor = 1, epoch_token = 'other', revision = nextval('sales_revision') WHERE sale = $1`, sale.ID)
	must(t, err)
	in.opened(p, sale.ID, 3)
	if regressions.Load() == 0 {
		t.Error("it is not counted that the database went back in time")
	}
	in.work(p)
	placed = append(placed, in.sellOut(p, sale.ID, "next")...)
	if confirmed, late := in.outcomes(p, placed); confirmed != 5 || late != 0 {
		t.Errorf("%d confirmed and %d late of 5", confirmed, late)
	}
	in.balanced(p, sale.ID)
}

// TestWhatRedisHasSeenOfTheDatabaseIsCompared by a process that has not seen it itself.
func TestWhatRedisHasSeenOfTheDatabaseIsCompared(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	stop := in.work(p)
	sale := in.sale(p)
	in.confirmed(p, sale.ID, 3)
	eventually(t, "Redis has the last event", func() bool {
		text, err := in.rdb.Get(t.Context(), in.namespace+":last-event").Result()
		return err == nil && strings.HasPrefix(text, "3 ")
	})
	stop()
	p.stop()
	for _, lost := range []string{
		`ALTER TABLE order_events DISABLE TRIGGER ALL`,
		`DELETE FROM order_events WHERE seq = 3`,
		`DELETE FROM order_units WHERE order_id IN (SELECT order_id FROM orders WHERE order_id NOT IN (SELECT order_id FROM order_events))`,
		`DELETE FROM orders WHERE order_id NOT IN (SELECT order_id FROM order_events)`,
		`ALTER TABLE order_events ENABLE TRIGGER ALL`,
	} {
		_, err := in.pool.Exec(t.Context(), lost)
		must(t, err)
	}
	noticed := make(chan struct{}, 10)
	p = in.start(func(o *shop.Options) { o.Measures.Regressed = func() { noticed <- struct{}{} } })
	arrives(t, "it is noticed", first(t.Context(), noticed))
	in.opened(p, sale.ID, 2)
	in.work(p)
	in.balanced(p, sale.ID) // the order that no process remembers is lost, and its unit is on sale again
	if n := len(in.sellOut(p, sale.ID, "next")); n != 8 {
		t.Errorf("%d units sold of 8", n)
	}
}

// first is closed with the first value of a channel.
func first(ctx context.Context, ch <-chan struct{}) <-chan struct{} {
	came := make(chan struct{})
	go func() {
		select {
		case <-ch:
			close(came)
		case <-ctx.Done():
		}
	}()
	return came
}

// TestARestoredBackupLosesNothingThatIsRemembered: however many orders were committed since the backup. An order that ended
// since is not committed again: its unit and its buyer's quota may be another order's.
func TestARestoredBackupLosesNothingThatIsRemembered(t *testing.T) {
	t.Parallel()
	const since = 3000
	server, database := testenv.StartRedis(t), testenv.StartPostgres(t)
	in := installIn(t, server.URL(), database.URL())
	in.timeout = redisTimeout // Redis is not disturbed here
	p, q := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = since + 2 })
	stop := in.work(p)
	in.confirmed(p, sale.ID, 1)
	backup := database.Snapshot()
	in.ready()
	ended := in.buy(q, sale.ID, "ended").Order.ID
	in.settled(q, ended)
	in.end(p, ended, orders.StatusCancelled)
	eventually(t, "the other process was notified of its end", func() bool { return !q.CommitsAgain(ended) })
	placeOf(t, p, sale.ID, "one-", since/2)
	placeOf(t, q, sale.ID, "other-", since/2)
	in.drained(`SELECT count(*) FROM orders WHERE status = 'confirmed'`, 1+since)
	eventually(t, "the commits were reported", func() bool { return len(p.Remembered())+len(q.Remembered()) == 0 })
	stop()
	database.RestartFrom(backup)
	in.work(q)
	in.opened(q, sale.ID, 2)
	in.ready()
	if n := in.count(`SELECT count(*) FROM orders WHERE status = 'confirmed'`); n != 1+since {
		t.Errorf("%d orders are confirmed of %d", n, 1+since)
	}
	if n := in.count(`SELECT count(*) FROM orders WHERE order_id = $1`, ended.String()); n != 0 {
		t.Error("an order that had ended was committed again")
	}
	in.balanced(q, sale.ID)
}
