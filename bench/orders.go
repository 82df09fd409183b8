package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

const (
	connections = 64  // of a closed-loop crowd
	most        = 512 // connections of an open-loop crowd
	warmUp      = 500 // orders
	manyUnits   = 10_000_000
	lowRate     = 100 // orders a second, far below any peak
)

// An orderTurn is one turn of one stack: a peak until all orders are committed, then half of that rate at fixed moments, then a
// hundred a second, then the statistics of Redis.
type orderTurn struct {
	Stack string `json:"stack"`

	Admitted    float64       `json:"admitted_per_second"`
	P50         time.Duration `json:"p50_ns"`
	P99         time.Duration `json:"p99_ns"`
	Committed   float64       `json:"committed_per_second"`
	Orders      int64         `json:"orders"`
	NotAccepted int64         `json:"not_accepted"`

	CPU       map[string]float64 `json:"cpu_us_per_order"` // by process
	Sum       float64            `json:"cpu_us_per_order_sum"`
	Generator float64            `json:"generator_us_per_order"`
	PerTask   float64            `json:"orders_per_task"`
	PerCommit float64            `json:"orders_per_transaction"`
	Commands  []stack.Share      `json:"redis_commands"`

	HalfRate        float64       `json:"half_offered_per_second"`
	HalfP50         time.Duration `json:"half_p50_ns"`
	HalfP99         time.Duration `json:"half_p99_ns"`
	HalfNotAccepted int64         `json:"half_not_accepted"`
	ConfirmedP50    time.Duration `json:"half_confirmed_p50_ns"`
	ConfirmedP99    time.Duration `json:"half_confirmed_p99_ns"`

	LowCPU map[string]float64 `json:"low_cpu_us_per_order"` // by process
	LowSum float64            `json:"low_cpu_us_per_order_sum"`

	Scripts       []stack.Share `json:"redis_scripts"`
	ScriptsOrders int64         `json:"redis_scripts_orders"`
}

// orderTurn is one turn of one stack.
func (r *run) orderTurn(ctx context.Context, st *stack.Stack) (t orderTurn, err error) {
	learned, err := r.scripts.Watch(ctx, r.servers)
	if err != nil {
		return t, err
	}
	s, err := r.open(ctx, st, stack.Options{}, 1, 0)
	learned()
	if err != nil {
		return t, err
	}
	defer s.Stop()
	t.Stack = st.Name
	if err := s.peak(ctx, r.size.peak, &t); err != nil {
		return t, err
	}
	if err := s.half(ctx, r.size.half, &t); err != nil {
		return t, err
	}
	if err := s.low(ctx, 4*r.size.half, &t); err != nil {
		return t, err
	}
	var unfinished error
	t.Scripts, err = s.servers.Sample(ctx, r.scripts, func() {
		res := s.crowd(connections).Closed(ctx, r.size.peak/4)
		t.ScriptsOrders, unfinished = s.all(ctx, res)
	})
	return t, errors.Join(err, unfinished)
}

// peak places orders in a closed loop, and waits until all are committed.
func (s *shop) peak(ctx context.Context, length time.Duration, t *orderTurn) error {
	tasks, err := s.tasks(ctx)
	if err != nil {
		return err
	}
	commits, err := s.Metric(ctx, "tidegate_commit_orders_count")
	if err != nil {
		return err
	}
	if err := s.servers.ResetCommands(ctx); err != nil {
		return err
	}
	before, start := s.meter(), time.Now()
	res := s.crowd(connections).Closed(ctx, length)
	if t.Orders, err = s.all(ctx, res); err != nil {
		return err
	}
	t.CPU, t.Sum, t.Generator = s.meter().since(before, t.Orders)
	if t.Commands, err = s.servers.Commands(ctx); err != nil {
		return err
	}
	end, err := s.lastCommit(ctx)
	if err != nil {
		return err
	}
	t.Admitted, t.P50, t.P99 = res.PerSecond(202), res.Quantile(50), res.Quantile(99)
	t.Committed = float64(t.Orders) / end.Sub(start).Seconds()
	t.NotAccepted = others(res)
	done, err := s.tasks(ctx)
	if err != nil {
		return err
	}
	t.PerTask = float64(t.Orders) / float64(max(1, done-tasks))
	after, err := s.Metric(ctx, "tidegate_commit_orders_count")
	if t.PerCommit = 1; after > commits {
		t.PerCommit = float64(t.Orders) / (after - commits)
	}
	return err
}

func others(res *crowd.Result) (n int64) {
	for status, count := range res.Statuses {
		if status != 202 {
			n += count
		}
	}
	return n
}

// half places orders at half of the peak's rate.
func (s *shop) half(ctx context.Context, length time.Duration, t *orderTurn) error {
	var (
		mu       sync.Mutex
		accepted = map[string]time.Time{} // by order
	)
	c := s.crowd(most)
	c.Answered = func(_ int64, a crowd.Answer, at time.Time) {
		if a.Status != 202 {
			return
		}
		id := orderID(a.Body)
		mu.Lock()
		accepted[id] = at
		mu.Unlock()
	}
	t.HalfRate = t.Admitted / 2
	res := c.Open(ctx, length, t.HalfRate)
	t.HalfP50, t.HalfP99, t.HalfNotAccepted = res.Quantile(50), res.Quantile(99), others(res)
	if _, err := s.all(ctx, res); err != nil {
		return err
	}
	// Orders whose answer was lost may have been counted instead of accepted ones, so wait for the accepted ones.
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		delays, err := s.delays(ctx, accepted)
		if err != nil {
			return err
		}
		if len(delays) == len(accepted) {
			t.ConfirmedP50, t.ConfirmedP99 = crowd.Quantile(delays, 50), crowd.Quantile(delays, 99)
			return nil
		}
		if time.Since(start) > commitWithin {
			return fmt.Errorf("%d of %d accepted orders are not committed", len(accepted)-len(delays), len(accepted))
		}
	}
}

// low places a hundred orders a second. What the stack uses at rest is part of it.
func (s *shop) low(ctx context.Context, length time.Duration, t *orderTurn) error {
	before := s.meter()
	n, err := s.all(ctx, s.crowd(connections).Open(ctx, length, lowRate))
	t.LowCPU, t.LowSum, _ = s.meter().since(before, n)
	return err
}

// delays returns the times from an order's 202 to its commit.
func (s *shop) delays(ctx context.Context, accepted map[string]time.Time) (delays []time.Duration, err error) {
	rows, err := s.servers.Database.Query(ctx, `SELECT order_id::text, pg_xact_commit_timestamp(xmin) FROM orders`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var at time.Time
		if err := rows.Scan(&id, &at); err != nil {
			return nil, err
		}
		if answered, ok := accepted[id]; ok {
			delays = append(delays, max(0, at.Sub(answered)))
		}
	}
	return delays, rows.Err()
}

// orderID returns the id in the answer, which has the same name in both stacks.
func orderID(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"order_id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// orders compares whole stacks.
func (r *run) orders(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	turns := make([][]orderTurn, len(r.stacks))
	for range r.size.rounds {
		for i, st := range r.stacks {
			t, err := r.orderTurn(ctx, st)
			if err != nil {
				return fmt.Errorf("%s: %w", st.Name, err)
			}
			turns[i] = append(turns[i], t)
		}
	}
	r.keep("orders", turns)
	r.orderTables(turns)
	return nil
}

// orderTables prints the medians.
func (r *run) orderTables(turns [][]orderTurn) {
	head := []string{""}
	for _, of := range turns {
		head = append(head, of[0].Stack)
	}
	for _, of := range turns[1:] {
		head = append(head, "÷ "+of[0].Stack+" (lowest–highest)")
	}
	tab := newTable(head...)
	row := func(name string, show func(float64) string, value func(orderTurn) float64) {
		cells := []string{name}
		each := make([][]float64, len(turns))
		for i, of := range turns {
			for _, t := range of {
				each[i] = append(each[i], value(t))
			}
			cells = append(cells, show(median(each[i])))
		}
		for _, of := range each[1:] {
			cells = append(cells, quotient(each[0], of))
		}
		tab.add(cells...)
	}
	ms := func(v float64) string { return short(time.Duration(v)) }
	row("admitted/s", whole, func(t orderTurn) float64 { return t.Admitted })
	row("p50 of 202", ms, func(t orderTurn) float64 { return float64(t.P50) })
	row("p99 of 202", ms, func(t orderTurn) float64 { return float64(t.P99) })
	row("committed/s until all is committed", whole, func(t orderTurn) float64 { return t.Committed })
	processes := []string{"API", "worker", "Redis", "Postgres"}
	for _, process := range processes {
		row("CPU µs an order: "+process, whole, func(t orderTurn) float64 { return t.CPU[process] })
	}
	row("CPU µs an order: sum", whole, func(t orderTurn) float64 { return t.Sum })
	row("load generator, µs an order", whole, func(t orderTurn) float64 { return t.Generator })
	row("orders a task", one, func(t orderTurn) float64 { return t.PerTask })
	row("orders a transaction", one, func(t orderTurn) float64 { return t.PerCommit })
	row("answers but 202", whole, func(t orderTurn) float64 { return float64(t.NotAccepted) })
	row("half load: offered/s", whole, func(t orderTurn) float64 { return t.HalfRate })
	row("half load: p50 of 202", ms, func(t orderTurn) float64 { return float64(t.HalfP50) })
	row("half load: p99 of 202", ms, func(t orderTurn) float64 { return float64(t.HalfP99) })
	row("half load: 202 to commit, p50", ms, func(t orderTurn) float64 { return float64(t.ConfirmedP50) })
	row("half load: 202 to commit, p99", ms, func(t orderTurn) float64 { return float64(t.ConfirmedP99) })
	row("half load: answers but 202", whole, func(t orderTurn) float64 { return float64(t.HalfNotAccepted) })
	for _, process := range processes {
		row(fmt.Sprintf("%d/s: CPU µs an order: %s", lowRate, process), whole, func(t orderTurn) float64 { return t.LowCPU[process] })
	}
	row(fmt.Sprintf("%d/s: CPU µs an order: sum", lowRate), whole, func(t orderTurn) float64 { return t.LowSum })
	flushed := "off"
	if r.fsync {
		flushed = "on"
	}
	r.print(tab, fmt.Sprintf("Orders: %d connections for %v, then half of that pace for %v, then %d/s for %v; %d rounds, fsync of Postgres %s",
		connections, r.size.peak, r.size.half, lowRate, 4*r.size.half, r.size.rounds, flushed))
	for _, of := range turns {
		r.redisTable("Redis by command at the peak (evalsha contains the others as far as scripts run them), "+of[0].Stack, of,
			func(t orderTurn) ([]stack.Share, int64) { return t.Commands, t.Orders })
		r.redisTable("Redis by script, those of 8 µs or more, "+of[0].Stack, of,
			func(t orderTurn) ([]stack.Share, int64) { return t.Scripts, t.ScriptsOrders })
	}
}

// redisTable prints the sums of all rounds.
func (r *run) redisTable(title string, turns []orderTurn, of func(orderTurn) ([]stack.Share, int64)) {
	var names []string
	sum, orders := map[string]*stack.Share{}, int64(0)
	for _, t := range turns {
		shares, n := of(t)
		orders += n
		for _, s := range shares {
			if sum[s.Name] == nil {
				sum[s.Name] = &stack.Share{}
				names = append(names, s.Name)
			}
			sum[s.Name].Calls += s.Calls
			sum[s.Name].Took += s.Took
		}
	}
	byCost(names, func(name string) float64 { return float64(sum[name].Took) })
	tab := newTable("", "calls an order", "µs a call", "µs an order")
	for _, name := range names {
		s := sum[name]
		if us := float64(s.Took.Microseconds()) / float64(max(1, orders)); us >= 0.5 {
			tab.add(name, fmt.Sprintf("%.2f", float64(s.Calls)/float64(max(1, orders))),
				one(float64(s.Took.Microseconds())/float64(max(1, s.Calls))), one(us))
		}
	}
	r.print(tab, title)
}
