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
	type resting struct {
		name  string
		stack *stack.Stack
		sales int
	}
	var all []resting
	for _, st := range r.stacks {
		all = append(all, resting{st.Name, st, 1})
	}
	for _, st := range r.stacks {
		if st.Own() {
			all = append(all, resting{fmt.Sprintf("%s, %d sales", st.Name, r.size.idleSales), st, r.size.idleSales},
				resting{st.Embedded().Name, st.Embedded(), 1})
		}
	}
	tab := newTable("% of a core", "API", "worker", "Redis", "Postgres", "Redis commands/s")
	figures := map[string]map[string]float64{}
	for _, at := range all {
		percent, err := r.idleTurn(ctx, at.stack, at.sales)
		if err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		figures[at.name] = percent
		cells := []string{at.name}
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
	r.print(tab, fmt.Sprintf("At rest for %v, with an open sale, or as many as the name states", r.size.idle))
	return nil
}

func (r *run) idleTurn(ctx context.Context, st *stack.Stack, sales int) (map[string]float64, error) {
	running, err := st.Start(ctx, r.servers, stack.Options{})
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	s := &shop{Running: running, servers: r.servers, items: 1}
	if err := s.offerMore(ctx, sales); err != nil {
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
	if err := pause(ctx, min(settled, 2*r.size.idle)); err != nil {
		return nil, err
	}
	if err := s.servers.ResetCommands(ctx); err != nil {
		return nil, err
	}
	before, start := s.meter(), time.Now()
	if err := pause(ctx, r.size.idle); err != nil {
		return nil, err
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
