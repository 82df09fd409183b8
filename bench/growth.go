package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/bench/stack"
)

// A setting is a configuration in which a stack of this project is measured.
type setting struct {
	name   string
	o      stack.Options
	items  int
	sales  int   // of one item each; 0: one
	buyers int64 // who have ordered before the measurement
}

// settings returns the baseline, and those of the configurations with one dimension larger that were selected.
func (r *run) settings() []setting {
	all := []setting{{name: "1 API, 1 worker, 1 rule, 1 item"}}
	for _, n := range r.size.apis {
		all = append(all, setting{name: fmt.Sprint(n, " APIs"), o: stack.Options{APIs: n}})
	}
	for _, n := range r.size.workers {
		all = append(all, setting{name: fmt.Sprint(n, " workers"), o: stack.Options{Workers: n}})
	}
	for _, n := range r.size.buyers {
		all = append(all, setting{name: fmt.Sprint(n, " buyers before"), buyers: n})
	}
	for _, n := range r.size.rules {
		all = append(all, setting{name: fmt.Sprint(n, " rules"), o: stack.Options{Rules: manyRules(n)}})
	}
	for _, n := range r.size.items {
		all = append(all, setting{name: fmt.Sprint(n, " items"), items: n})
	}
	for _, n := range r.size.sales {
		all = append(all, setting{name: fmt.Sprint(n, " sales"), sales: n})
	}
	for _, n := range r.size.clusterItems {
		all = append(all, setting{name: fmt.Sprint("3 masters, ", n, " items"), o: stack.Options{Cluster: true}, items: n})
	}
	if r.size.ownQueue {
		all = append(all, setting{name: "queue on its own Redis", o: stack.Options{OwnQueue: true}})
	}
	return append(all[:1:1], slices.DeleteFunc(all[1:], func(s setting) bool { return !r.chosen.MatchString(s.name) })...)
}

// manyRules returns OneRule after n others, which are for other routes.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - {name: other-%d, match: {route: \"/v1/other-%d/*\", method: POST}, subject: [user], limit: 100, window: 1m}\n", i, i)
	}
	b.WriteString("  - {name: orders, match: {route: \"/v1/sales/*/orders\", method: POST}, subject: [user], limit: 100, window: 1m}\n")
	return b.String()
}

// growth measures peaks of this project as one dimension after the other grows.
func (r *run) growth(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	settings := r.settings()
	turns := make([][]orderTurn, len(settings))
	for range r.size.growthRounds {
		for i, g := range settings {
			t, err := r.growthTurn(ctx, r.stacks[0], g)
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			t.Stack = g.name
			turns[i] = append(turns[i], t)
		}
	}
	r.keep("growth", turns)
	tab := newTable("", "admitted/s", "÷ first", "committed/s", "API µs", "worker µs", "Redis µs", "Postgres µs", "sum µs an order",
		"÷ first", "orders a transaction")
	of := func(i int, value func(orderTurn) float64) (values []float64) {
		for _, t := range turns[i] {
			values = append(values, value(t))
		}
		return values
	}
	admitted, sum := func(t orderTurn) float64 { return t.Admitted }, func(t orderTurn) float64 { return t.Sum }
	for i, g := range settings {
		cells := []string{
			g.name, whole(median(of(i, admitted))), quotient(of(i, admitted), of(0, admitted)),
			whole(median(of(i, func(t orderTurn) float64 { return t.Committed }))),
		}
		for _, process := range []string{"API", "worker", "Redis", "Postgres"} {
			cells = append(cells, whole(median(of(i, func(t orderTurn) float64 { return t.CPU[process] }))))
		}
		cells = append(cells, whole(median(of(i, sum))), quotient(of(i, sum), of(0, sum)),
			one(median(of(i, func(t orderTurn) float64 { return t.PerCommit }))))
		tab.add(cells...)
	}
	r.print(tab, fmt.Sprintf("Growth: peaks of %v, %d rounds", r.size.growth, r.size.growthRounds))
	return nil
}

// offersAtOnce is the number of sales that are made at a time, where thousands are.
const offersAtOnce = 16

// offerMore adds sales of one item each until there are so many.
func (s *shop) offerMore(ctx context.Context, sales int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(offersAtOnce)
	for ; s.sales < sales; s.sales++ {
		name := saleName(s.sales)
		g.Go(func() error { return s.Offer(ctx, name, 1, manyUnits/sales, 0) })
	}
	return g.Wait()
}

func (r *run) growthTurn(ctx context.Context, st *stack.Stack, g setting) (t orderTurn, err error) {
	s, err := r.open(ctx, st, g.o, max(1, g.items), 0)
	if err != nil {
		return t, err
	}
	defer s.Stop()
	if s.sales < g.sales {
		if err := s.offerMore(ctx, g.sales); err != nil {
			return t, err
		}
	}
	if g.buyers > 0 {
		if _, err := s.all(ctx, s.crowd(connections).Exactly(ctx, g.buyers)); err != nil {
			return t, err
		}
	}
	return t, s.peak(ctx, r.size.growth, &t)
}
