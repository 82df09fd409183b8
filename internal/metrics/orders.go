package metrics

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/recent"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// Orders adds the metrics of reservations and commits, for a shop.Service of this process.
func (m *Metrics) Orders() shop.Measures {
	var (
		reserved = prometheus.NewHistogram(seconds("reserve_duration_seconds", "Duration of a reservation in Redis, including failed ones."))
		batch    = prometheus.NewHistogramVec(seconds("commit_duration_seconds",
			"Duration of transactions that commit orders, by result: ok or failed."), []string{"result"})
		size      = prometheus.NewHistogram(native("commit_orders", "Orders per committed transaction.", 1, 2, 5, 10, 25, 50, 100, 250, 500))
		confirmed = prometheus.NewHistogram(seconds("confirmation_duration_seconds",
			"Time from accepting an order to committing it, measured by the committing process."))
	)
	regressed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidegate_database_regressions_total", Help: "Sales that were closed and recovered because the database went back in time.",
	})
	later := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidegate_later_version_total",
		Help: "Times that this process found a task or a record of a later version and left it waiting, by kind: task or record.",
	}, []string{"kind"})
	m.registry.MustRegister(reserved, batch, size, confirmed, regressed, later)
	for _, kind := range []string{"task", "record"} {
		later.WithLabelValues(kind) // creates the series at the start
	}
	ok, failed := batch.WithLabelValues("ok"), batch.WithLabelValues("failed") // creates both series at the start
	return shop.Measures{
		Reserved: func(took time.Duration) {
			m.reserved.Add(1)
			reserved.Observe(took.Seconds())
		},
		Batch: func(orders int, took time.Duration, err error) {
			if err != nil {
				failed.Observe(took.Seconds())
				return
			}
			size.Observe(float64(orders))
			ok.Observe(took.Seconds())
		},
		Confirmed:    func(after time.Duration) { confirmed.Observe(after.Seconds()) },
		Regressed:    regressed.Inc,
		NewerVersion: func(kind string, n int) { later.WithLabelValues(kind).Add(float64(n)) },
	}
}

// Sales is the source of the metrics of an installation's sales: a *shop.Service.
type Sales interface {
	Backlog(context.Context) (orders.Backlog, error)
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error)
	Conditions(context.Context) []orders.Condition
	ClockOffsets() (redis, database time.Duration)
}

// mostDead bounds how many dead letters are read for counting. Normally there are none.
const mostDead = 1000

// Sales adds the metrics of sales and uncommitted orders of the installation. All its processes report the same numbers.
func (m *Metrics) Sales(from Sales) {
	s := selling{
		backlog: recent.New(askWithin, from.Backlog),
		dead: recent.New(askWithin, func(ctx context.Context) (int, error) {
			letters, err := from.DeadLetters(ctx, orders.ID{}, mostDead)
			return len(letters), err
		}),
		clocks:     from.ClockOffsets,
		sales:      recent.New(askWithin, func(ctx context.Context) ([]orders.SaleStatus, error) { return from.Sales(ctx, "", 0) }),
		conditions: recent.New(askWithin, func(ctx context.Context) ([]orders.Condition, error) { return from.Conditions(ctx), nil }),
	}
	m.registry.MustRegister(s)
	m.troubles = append(m.troubles, s.troubles)
}

type selling struct {
	backlog    *recent.Source[orders.Backlog]
	dead       *recent.Source[int]
	sales      *recent.Source[[]orders.SaleStatus]
	conditions *recent.Source[[]orders.Condition]
	clocks     func() (redis, database time.Duration)
}

var (
	outboxOrders = describe("outbox_orders", "Accepted orders that are not yet committed.")
	outboxOldest = describe("outbox_oldest_seconds", "Age of the oldest order that is not committed, in seconds; 0 if there is none.")
	deadLetters  = describe("dead_letters",
		fmt.Sprintf("Orders that the database refused and that have not been replayed, counted up to %d.", mostDead))
	stockUnits = describe("stock_units", "Total units of an item whose sale is open, paused or recovering, starting an hour before the "+
		"sale.", "sale", "item")
	clockOffset = describe("clock_offset_seconds",
		"How far the clock of a server, redis or database, is ahead of this process's, in seconds.", "server")
	condition = describe("condition", "1 while there is a reason why this process cannot take or commit orders, or why accepted orders "+
		"are in danger, by cause; otherwise 0.", "cause")
	freeUnits = describe("free_units", "Unsold and unreserved units of an item; no series while it is recovering.", "sale", "item")
	unitsAge  = describe("units_age_seconds",
		"Age of tidegate_stock_units and tidegate_free_units, in seconds: they keep their last values while the sales cannot be read in time.")
)

func (s selling) troubles() []string {
	if n, _ := latest(s.dead); n > 0 {
		return []string{"there are dead letters: orders that the database refused"}
	}
	return nil
}

// Describe implements prometheus.Collector.
func (s selling) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{outboxOrders, outboxOldest, deadLetters, stockUnits, freeUnits, unitsAge, condition, clockOffset} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. If a source does not answer, its metrics are left out instead of repeating old values,
// except for units: reading many sales after a change of each may take longer than a scrape waits, and series must not end for
// that. They have their age.
func (s selling) Collect(ch chan<- prometheus.Metric) {
	s.dead.Ask(context.Background(), askAgain) // start all queries before waiting for the first
	s.sales.Ask(context.Background(), askAgain)
	s.conditions.Ask(context.Background(), askAgain)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if b, known := found(s.backlog); known {
		gauge(outboxOrders, float64(b.Orders))
		gauge(outboxOldest, b.Oldest.Seconds())
	}
	if n, known := found(s.dead); known {
		gauge(deadLetters, float64(n))
	}
	redis, database := s.clocks()
	gauge(clockOffset, redis.Seconds(), "redis")
	gauge(clockOffset, database.Seconds(), "database")
	if list, known := found(s.conditions); known {
		for _, cause := range orders.Causes {
			there := 0.
			if slices.ContainsFunc(list, func(c orders.Condition) bool { return c.Cause == cause }) {
				there = 1
			}
			gauge(condition, there, string(cause))
		}
	}
	_, _ = found(s.sales)
	last, now := s.sales.Last(), time.Now()
	if !last.At.IsZero() {
		gauge(unitsAge, now.Sub(last.At).Seconds())
	}
	for i := range last.Value {
		sale := &last.Value[i]
		if !shop.VerifiedAt(&sale.Sale, now) ||
			!slices.Contains([]orders.State{orders.StateOpen, orders.StatePaused, orders.StateRecovering}, sale.State) {
			continue
		}
		for _, item := range sale.Items {
			gauge(stockUnits, float64(item.Stock), sale.ID, item.ID)
			if free, known := sale.Free[item.ID]; known {
				gauge(freeUnits, float64(free), sale.ID, item.ID)
			}
		}
	}
}
