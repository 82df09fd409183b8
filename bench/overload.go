package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/bench/crowd"
	"github.com/tidegate/tidegate/bench/stack"
)

// An overloadTurn is a turn with more buyers than a stack can admit.
type overloadTurn struct {
	Stack     string        `json:"stack"`
	APIs      int           `json:"apis"`
	Best      float64       `json:"best_per_second"` // orders admitted without overload
	Times     float64       `json:"times"`           // arrival rate as a multiple of Best
	Impatient bool          `json:"impatient"`
	Pace      float64       `json:"admitted_per_second"` // while buyers arrived
	Share     float64       `json:"admitted_share"`      // of all buyers, at the end
	Lost      float64       `json:"lost_answers_a_buyer"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Longest   time.Duration `json:"longest_retry_after_ns"`
	Orders    int64         `json:"orders"`
}

// overload sends two and three times as many buyers as can be admitted.
func (r *run) overload(ctx context.Context) error {
	if err := r.stackUp(); err != nil {
		return err
	}
	var turns []overloadTurn
	for _, st := range r.stacks {
		if !st.Own() {
			continue // it has no limit on load
		}
		for _, apis := range []int{1, 2} {
			of, err := r.overloadOf(ctx, st, apis)
			if err != nil {
				return fmt.Errorf("%s: %w", st.Name, err)
			}
			turns = append(turns, of...)
		}
	}
	r.keep("overload", turns)
	tab := newTable("", "APIs", "best/s", "came", "Retry-After", "admitted/s", "÷ best", "admitted in the end", "lost answers a buyer",
		"p50", "p99", "longest Retry-After")
	for _, t := range turns {
		honoured := "honoured"
		if t.Impatient {
			honoured = "ignored"
		}
		tab.add(t.Stack, fmt.Sprint(t.APIs), whole(t.Best), fmt.Sprintf("%.0f ×", t.Times), honoured, whole(t.Pace), times(t.Pace/t.Best),
			fmt.Sprintf("%.0f %%", 100*t.Share), times(t.Lost), short(t.P50), short(t.P99), fmt.Sprint(t.Longest))
	}
	r.print(tab, fmt.Sprintf("Overload: buyers come for %v, and try again for as long", r.size.overload))
	return nil
}

func (r *run) overloadOf(ctx context.Context, st *stack.Stack, apis int) (turns []overloadTurn, err error) {
	s, err := r.open(ctx, st, stack.Options{APIs: apis}, 1, 0)
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	var normal orderTurn
	if err := s.peak(ctx, r.size.overload/2, &normal); err != nil {
		return nil, err
	}
	for _, times := range []float64{2, 3} {
		for _, impatient := range []bool{false, true} {
			c := s.crowd(1)
			rush := crowd.Rush{
				Addrs: s.Addrs(), Connections: 4 * most, Request: c.Request, PerSecond: times * normal.Admitted, Length: r.size.overload,
				Impatient: impatient,
			}
			res := rush.Run(ctx)
			before := s.orders
			s.asked += res.Buyers - res.Admitted // their outcome is unknown
			if _, err := s.all(ctx, &crowd.Result{Statuses: map[int]int64{202: res.Admitted}}); err != nil {
				return nil, err
			}
			turns = append(turns, overloadTurn{
				Stack: st.Name, APIs: apis, Best: normal.Admitted, Times: times, Impatient: impatient,
				Pace: float64(res.During) / r.size.overload.Seconds(), Share: float64(res.Admitted) / float64(max(1, res.Buyers)),
				Lost: float64(res.Lost) / float64(max(1, res.Buyers)), P50: res.Quantile(50), P99: res.Quantile(99), Longest: res.Longest,
				Orders: s.orders - before,
			})
		}
	}
	return turns, nil
}
