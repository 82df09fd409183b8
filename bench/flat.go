package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// flat measures whether decisions become slower with more users in the store. Every decision is of the same kind: for a user in the store
// who is admitted (sliding_counter), or who has used the unit and is refused by the store (sliding_log).
func (r *run) flat(ctx context.Context) error {
	const many = 1_000_000_000 // more units than are used up
	var sizes []int
	for n := 1_000; n <= max(1_000, 10*r.subjects); n *= 10 {
		sizes = append(sizes, n)
	}
	for _, s := range []struct {
		title  string
		limit  int
		before int
		contender
	}{
		{"sliding_log by Redis, refused", 1, 1, gateOnRedis("", store.SlidingLog, noCache)},
		{"sliding_counter by Redis, admitted", many, 1, gateOnRedis("", store.SlidingCounter, noCache)},
		{"sliding_counter in memory, admitted", many, 1, gateOnMemory("", store.SlidingCounter, noCache)},
	} {
		if !r.chosen.MatchString(s.title) {
			continue
		}
		results := make([][]result, len(sizes))
		for round := range r.rounds {
			for i, n := range sizes {
				t := trial{limit: s.limit, window: time.Hour, subjects: n, before: s.before, sample: 8}
				big := *r
				big.subjects = n
				res, err := big.turn(ctx, t, s.contender, names(n, "user-"), round)
				if err != nil {
					return fmt.Errorf("%s, %d users: %w", s.title, n, err)
				}
				results[i] = append(results[i], res)
			}
		}
		tab := newTable("users", "decisions/s", "of that with 1,000 users (lowest–highest)")
		for i, n := range sizes {
			var rates, parts []float64
			for j, res := range results[i] {
				rates, parts = append(rates, res.perSecond), append(parts, res.perSecond/results[0][j].perSecond)
			}
			tab.add(strconv.Itoa(n), perSecond(median(rates)),
				fmt.Sprintf("%.2f (%.2f–%.2f)", median(parts), slices.Min(parts), slices.Max(parts)))
		}
		r.print(tab, "Speed by the number of users: "+s.title)
	}
	return nil
}
