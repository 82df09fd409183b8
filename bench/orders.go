package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
)

// rates are orders a second below any peak.
var rates = []float64{100, 500, 1500}

// An orderTurn is one turn of one stack: a peak until all orders are committed, then half of that rate at fixed moments, then the lower
// rates, then the statistics of Redis.
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

	Half partLoad   `json:"half"`
	Low  []partLoad `json:"low"` // one of each of rates

	Scripts       []stack.Share `json:"redis_scripts"`
	ScriptsOrders int64         `json:"redis_scripts_orders"`
}

// A partLoad is orders at fixed moments.
type partLoad struct {
	Offered      float64            `json:"offered_per_second"`
	P50          time.Duration      `json:"p50_ns"`
	P99          time.Duration      `json:"p99_ns"`
	NotAccepted  int64              `json:"not_accepted"`
	ConfirmedP50 time.Duration      `json:"confirmed_p50_ns"` // from 202 to commit
	ConfirmedP99 time.Duration      `json:"confirmed_p99_ns"`
	CPU          map[string]float64 `json:"cpu_us_per_order"` // by process
	Sum          float64            `json:"cpu_us_per_order_sum"`
	Counts       map[string]float64 `json:"counts_per_order"` // see usage
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
	if t.Half, err = s.part(ctx, r.size.half, t.Admitted/2); err != nil {
		return t, err
	}
	for _, rate := range rates {
		low, err := s.part(ctx, 2*r.size.half, rate)
		if err != nil {
			return t, err
		}
		t.Low = append(t.Low, low)
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
	end, commits, err := s.commits(ctx, start)
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
	if done > tasks {
		t.PerTask = float64(t.Orders) / float64(done-tasks)
	}
	t.PerCommit = float64(t.Orders) / float64(max(1, commits))
	return nil
}

func others(res *crowd.Result) (n int64) {
	for status, count := range res.Statuses {
		if status != 202 {
			n += count
		}
	}
	return n
}

// part places so many orders a second. What the stack uses at rest is part of their CPU time.
func (s *shop) part(ctx context.Context, length time.Duration, rate float64) (t partLoad, err error) {
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
	before, err := s.usage(ctx)
	if err != nil {
		return t, err
	}
	res := c.Open(ctx, length, rate)
	t.Offered, t.P50, t.P99, t.NotAccepted = rate, res.Quantile(50), res.Quantile(99), others(res)
	n, err := s.all(ctx, res)
	if err != nil {
		return t, err
	}
	after, err := s.usage(ctx)
	if err != nil {
		return t, err
	}
	t.CPU, t.Sum, _ = after.cpu.since(before.cpu, n)
	t.Counts = after.per(float64(max(1, n)), before)
	// Orders whose answer was lost may have been counted instead of accepted ones, so wait for the accepted ones.
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		delays, err := s.delays(ctx, accepted)
		if err != nil {
			return t, err
		}
		if len(delays) == len(accepted) {
			t.ConfirmedP50, t.ConfirmedP99 = crowd.Quantile(delays, 50), crowd.Quantile(delays, 99)
			return t, nil
		}
		if time.Since(start) > commitWithin {
			return t, fmt.Errorf("%d of %d accepted orders are not committed", len(accepted)-len(delays), len(accepted))
		}
	}
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

// orderID returns the id in the answer, which has the same name in all stacks.
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
	contenders := append(slices.Clone(r.stacks), r.floor)
	turns := make([][]orderTurn, len(contenders))
	for range r.size.rounds {
		for i, st := range contenders {
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
	part := func(name string, of func(orderTurn) partLoad) {
		row(name+": p50 of 202", ms, func(t orderTurn) float64 { return float64(of(t).P50) })
		row(name+": p99 of 202", ms, func(t orderTurn) float64 { return float64(of(t).P99) })
		row(name+": 202 to commit, p50", ms, func(t orderTurn) float64 { return float64(of(t).ConfirmedP50) })
		row(name+": 202 to commit, p99", ms, func(t orderTurn) float64 { return float64(of(t).ConfirmedP99) })
		row(name+": answers but 202", whole, func(t orderTurn) float64 { return float64(of(t).NotAccepted) })
		for _, process := range processes {
			row(name+": CPU µs an order: "+process, whole, func(t orderTurn) float64 { return of(t).CPU[process] })
		}
		row(name+": CPU µs an order: sum", whole, func(t orderTurn) float64 { return of(t).Sum })
		for _, count := range counted {
			row(name+": "+count+" an order", one, func(t orderTurn) float64 { return of(t).Counts[count] })
		}
	}
	row("half load: offered/s", whole, func(t orderTurn) float64 { return t.Half.Offered })
	part("half load", func(t orderTurn) partLoad { return t.Half })
	for i, rate := range rates {
		part(fmt.Sprintf("%.0f/s", rate), func(t orderTurn) partLoad { return t.Low[i] })
	}
	flushed := "off"
	if r.fsync {
		flushed = "on"
	}
	r.print(tab, fmt.Sprintf("Orders: %d connections for %v, then half of that pace for %v, then %.0f/s for %v each; %d rounds, fsync of Postgres %s",
		connections, r.size.peak, r.size.half, rates, 2*r.size.half, r.size.rounds, flushed))
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
