package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/bench/stack"
)

// settled is the time after the last order before a stack counts as idle.
const settled = 2 * time.Second

// atRest measures stacks with a sale and without buyers.
func (r *run) atRest(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	stacks := r.stacks
	for _, st := range r.stacks {
		if st.Own() {
			stacks = append(stacks, st.Embedded())
		}
	}
	tab := newTable("% of a core", "API", "worker", "Redis", "Postgres", "Redis commands/s")
	figures := map[string]map[string]float64{}
	for _, st := range stacks {
		percent, err := r.idleTurn(ctx, st)
		if err != nil {
			return fmt.Errorf("%s: %w", st.Name, err)
		}
		figures[st.Name] = percent
		cells := []string{st.Name}
		for _, name := range []string{"API", "worker", "Redis", "Postgres", "commands"} {
			cell := ""
			if v, ok := percent[name]; ok {
				cell = one(v)
			}
			cells = append(cells, cell)
		}
		tab.add(cells...)
	}
	r.keep("idle", figures)
	r.print(tab, fmt.Sprintf("At rest for %v, with an open sale", r.size.idle))
	return nil
}

func (r *run) idleTurn(ctx context.Context, st *stack.Stack) (map[string]float64, error) {
	running, err := st.Start(ctx, r.servers, stack.Options{})
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	s := &shop{Running: running, servers: r.servers, sales: 1, items: 1}
	if err := s.Offer(ctx, saleName(0), 1, manyUnits, 0); err != nil {
		return nil, err
	}
	res := s.crowd(8).Exactly(ctx, warmUp)
	if res.Statuses[202] < warmUp/2 {
		return nil, errors.Join(fmt.Errorf("the first %d orders were answered %v", warmUp, res.Statuses), res.Err)
	}
	embedded := len(s.Workers) == 0
	if !embedded {
		if _, err := s.all(ctx, res); err != nil {
			return nil, err
		}
	}
	select {
	case <-time.After(min(settled, 2*r.size.idle)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.servers.ResetCommands(ctx); err != nil {
		return nil, err
	}
	before, start := s.meter(), time.Now()
	select {
	case <-time.After(r.size.idle):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, took := s.meter(), time.Since(start)
	percent := map[string]float64{}
	for name := range after {
		percent[name] = 100 * (after[name] - before[name]).Seconds() / took.Seconds()
	}
	delete(percent, "generator")
	if embedded {
		return map[string]float64{"API": percent["API"]}, nil
	}
	commands, err := s.servers.Commands(ctx)
	for _, c := range commands {
		percent["commands"] += float64(c.Calls) / took.Seconds()
	}
	return percent, err
}
