package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// bytes prints how much memory in Redis a user takes who has used all 10 units of the window.
func (r *run) bytes(ctx context.Context) error {
	const units = 10
	users := min(10_000, r.subjects)
	tab := newTable("", "key and value", "with Redis' tables", "keys")
	for _, c := range r.choose(
		gateOnRedis("sliding_log", store.SlidingLog, noCache),
		gateOnRedis("sliding_counter", store.SlidingCounter, noCache),
		gateOnRedis("gcra", store.GCRA, noCache),
		gateOnRedis("fixed_window", store.FixedWindow, noCache),
		gateOnRedis("base", store.TwoStage, noCache),
		redisRate, throttledRedis, ululeRedis,
	) {
		n := units
		if c.name == string(store.TwoStage) {
			n *= 2 // so that both stages are full
		}
		row, err := r.weigh(ctx, c, units, n, names(users, "user-"))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		tab.add(append([]string{c.name}, row...)...)
	}
	r.print(tab, "Bytes in Redis for each user, 10 units of 10 a minute")
	return nil
}

func (r *run) weigh(ctx context.Context, c contender, limit, n int, users []string) ([]string, error) {
	if err := r.redis.empty(ctx); err != nil {
		return nil, err
	}
	ask, closed, err := c.open(r, limit, time.Minute)
	if err != nil {
		return nil, err
	}
	defer closed()
	before, err := r.redis.memory(ctx)
	if err != nil {
		return nil, err
	}
	if err := once(ctx, ask, users, r.callers, n); err != nil {
		return nil, err
	}
	after, err := r.redis.memory(ctx)
	if err != nil {
		return nil, err
	}
	keys, usage, err := r.redis.usage(ctx)
	if err != nil {
		return nil, err
	}
	per := func(n int64) string { return strconv.FormatInt(n/int64(len(users)), 10) }
	return []string{per(usage), per(after - before), fmt.Sprintf("%.3g", float64(keys)/float64(len(users)))}, nil
}
