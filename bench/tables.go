package main

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// choose returns the first contender and those of the others that were selected.
func (r *run) choose(all ...contender) []contender {
	out := all[:1:1]
	for _, c := range all[1:] {
		if r.chosen.MatchString(c.name) {
			out = append(out, c)
		}
	}
	return out
}

// show compares contenders and prints the results.
func (r *run) show(ctx context.Context, title string, t trial) error {
	results, err := r.compare(ctx, t)
	if err != nil {
		return err
	}
	r.speeds(title, t, results)
	return nil
}

// overRedis compares decisions that each need a call to Redis: no subject uses up its units within a turn, so that the deny cache has no
// effect. Subjects have taken one unit before, so that Redis is not empty.
func (r *run) overRedis(ctx context.Context) error {
	return r.show(ctx, "Decisions by Redis, 10 a minute for each user", trial{
		contenders: r.choose(
			gateOnRedis("sliding_log", store.SlidingLog, withCache),
			redisRate,
			redisRatePipelined,
			throttledRedis,
			ululeRedis,
			gateOnRedis("sliding_counter", store.SlidingCounter, withCache),
			gateOnRedis("gcra", store.GCRA, withCache),
			gateOnRedis("fixed_window", store.FixedWindow, withCache),
		),
		limit: 10, window: time.Minute, subjects: r.subjects, before: 1, sample: 1,
	})
}

// denials compares refusals of users who have no units left and keep sending requests.
func (r *run) denials(ctx context.Context) error {
	for _, t := range []struct {
		title string
		n     int
	}{{"Refusals, one user who does not stop", 1}, {"Refusals, 1,000 users who do not stop", 1000}} {
		err := r.show(ctx, t.title, trial{
			contenders: r.choose(
				gateOnRedis("sliding_log, cache of refusals", store.SlidingLog, withCache),
				redisRate,
				gateOnRedis("sliding_log, no cache", store.SlidingLog, noCache),
				throttledRedis,
				ululeRedis,
			),
			limit: 10, window: time.Minute, subjects: t.n, before: 12, sample: 8,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inMemory compares decisions that need no server.
func (r *run) inMemory(ctx context.Context) error {
	for _, t := range []struct {
		title  string
		limit  int
		window time.Duration
	}{
		{"Decisions in memory, 100 a second for each user: most admitted", 100, time.Second},
		{"Decisions in memory, 10 a minute for each user: most refused", 10, time.Minute},
	} {
		err := r.show(ctx, t.title, trial{
			contenders: r.choose(
				gateOnMemory("Gate, sliding_log", store.SlidingLog, withCache),
				goLimiter,
				ululeMemory,
				storeAlone("MemoryStore alone, sliding_log", store.SlidingLog),
				gateOnMemory("Gate, sliding_counter", store.SlidingCounter, withCache),
				gateOnMemory("Gate, gcra", store.GCRA, withCache),
				gateOnMemory("Gate, fixed_window", store.FixedWindow, withCache),
				rateMap,
			),
			limit: t.limit, window: t.window, subjects: r.subjects, before: 1, sample: 64,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
