package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/orders"
)

func TestOrders(t *testing.T) {
	m := metrics.New("test")
	o := m.Orders()
	o.Reserved(time.Second)
	for range 2 {
		o.Batch(30, 2*time.Second, nil)
		o.Batch(7, time.Second, errors.New("no disk"))
		o.Confirmed(3 * time.Second)
	}
	got := scrape(t, m)
	for name, want := range map[string]string{
		"reserve_duration_seconds_sum": "1", `commit_duration_seconds_sum{result="ok"}`: "4", `commit_duration_seconds_count{result="ok"}`: "2", "commit_orders_sum": "60",
		`commit_duration_seconds_count{result="failed"}`: "2",
		"confirmation_duration_seconds_sum":              "6",
	} {
		if n := got["tidegate_"+name]; n != want {
			t.Errorf("%s is %q, want %s", name, n, want)
		}
	}
}

// fakeSales are the sales of a test.
type fakeSales struct {
	backlog orders.Backlog
	dead    []orders.DeadLetter
	sales   []orders.SaleStatus
	shut    []orders.Condition
	err     error
}

func (s *fakeSales) ClockOffsets() (redis, database time.Duration) { return time.Second, -time.Minute }

func (s *fakeSales) Conditions(context.Context) []orders.Condition { return s.shut }

func (s *fakeSales) Backlog(context.Context) (orders.Backlog, error) { return s.backlog, s.err }
func (s *fakeSales) DeadLetters(_ context.Context, _ orders.ID, limit int) ([]orders.DeadLetter, error) {
	return s.dead[:min(limit, len(s.dead))], s.err
}

func (s *fakeSales) Sales(context.Context, string, int) ([]orders.SaleStatus, error) {
	return s.sales, s.err
}

func TestSales(t *testing.T) {
	items := []orders.Item{{ID: "a", Stock: 10}, {ID: "b", Stock: 20}}
	sale := func(id string, startsIn time.Duration) orders.Sale {
		start := time.Now().Add(startsIn)
		return orders.Sale{ID: id, StartsAt: start, EndsAt: start.Add(time.Hour), Items: items}
	}
	from := &fakeSales{
		backlog: orders.Backlog{Orders: 3, Oldest: 1500 * time.Millisecond}, dead: make([]orders.DeadLetter, 1200),
		sales: []orders.SaleStatus{
			{Sale: sale("open", 0), State: orders.StateOpen, Free: map[string]int{"a": 0, "b": 7}},
			{Sale: sale("lost", time.Minute), State: orders.StateRecovering, Free: map[string]int{"a": 1}},
			{Sale: sale("past", -2*time.Hour), State: orders.StateEnded, Free: map[string]int{"a": 1, "b": 2}},
			{Sale: sale("far", 2*time.Hour), State: orders.StatePaused, Free: map[string]int{"a": 1, "b": 2}}, // nobody verifies it yet
		},
		shut: []orders.Condition{{Cause: orders.CauseSales}},
	}
	told := func() (*metrics.Metrics, map[string]string) {
		m := metrics.New("test")
		m.Sales(from)
		got := scrape(t, m)
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.Contains(name, "build_info") })
		return m, got
	}
	want := map[string]string{
		"tidegate_outbox_orders": "3", "tidegate_outbox_oldest_seconds": "1.5", "tidegate_dead_letters": "1000",
		`tidegate_stock_units{item="a",sale="open"}`: "10", `tidegate_free_units{item="a",sale="open"}`: "0",
		`tidegate_stock_units{item="b",sale="open"}`: "20", `tidegate_free_units{item="b",sale="open"}`: "7",
		`tidegate_stock_units{item="a",sale="lost"}`: "10", `tidegate_free_units{item="a",sale="lost"}`: "1",
		`tidegate_stock_units{item="b",sale="lost"}`: "20",
	}
	for _, cause := range orders.Causes {
		want[fmt.Sprintf("tidegate_condition{cause=%q}", cause)] = "0"
	}
	want[`tidegate_condition{cause="sales"}`] = "1"
	want[`tidegate_clock_offset_seconds{server="redis"}`], want[`tidegate_clock_offset_seconds{server="database"}`] = "1", "-60"
	m, got := told()
	age, err := strconv.ParseFloat(got["tidegate_units_age_seconds"], 64)
	if delete(got, "tidegate_units_age_seconds"); !maps.Equal(got, want) || err != nil || age < 0 || age > 10 {
		t.Errorf("%v, age %v", got, age)
	}
	if troubles := m.Degraded(); len(troubles) != 1 || !strings.Contains(troubles[0], "dead letters") {
		t.Errorf("%q", troubles)
	}
	from.err = errors.New("away")
	if m, got := told(); len(got) != len(orders.Causes)+2 || len(m.Degraded()) != 0 {
		t.Errorf("%v while nobody knows it", got)
	}
}

// TestUnitsKeepTheirLastValues: a scrape that finds the sales unreadable has the units of the last reading, and how old they are.
func TestUnitsKeepTheirLastValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		from := &fakeSales{sales: []orders.SaleStatus{{
			Sale:  orders.Sale{ID: "open", StartsAt: start, EndsAt: start.Add(time.Hour), Items: []orders.Item{{ID: "a", Stock: 10}}},
			State: orders.StateOpen, Free: map[string]int{"a": 3},
		}}}
		m := metrics.New("test")
		m.Sales(from)
		scrape(t, m)
		from.err = errors.New("away")
		time.Sleep(30 * time.Second)
		got := scrape(t, m)
		if got[`tidegate_free_units{item="a",sale="open"}`] != "3" || got[`tidegate_stock_units{item="a",sale="open"}`] != "10" ||
			got["tidegate_units_age_seconds"] != "30" || got["tidegate_outbox_orders"] != "" {
			t.Errorf("%v", got)
		}
	})
}

// The page shows what metrics raise alerts about.
func TestDegraded(t *testing.T) {
	m := metrics.New("test")
	m.Captcha(solvers{Fallback: true})
	m.Semaphores(quietly{})
	m.Verified("flash", []orders.Check{{Invariant: "I3", OK: true}, {Invariant: "I6", Breaches: 2}}, time.Now())
	m.Verified("spring", []orders.Check{{Invariant: "I6", OK: true}}, time.Now())
	scrape(t, m) // which waits for what the page does not wait for
	got := m.Degraded()
	for _, want := range []string{"proof of work", "semaphore report", "invariant I6 of sale flash"} {
		if !slices.ContainsFunc(got, func(trouble string) bool { return strings.Contains(trouble, want) }) {
			t.Errorf("%q not in %q", want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("%q", got)
	}
}
