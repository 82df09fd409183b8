package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// exactness prints how many units each limiter admits if the limit is 10: of 15 sequential requests, of 256 concurrent ones, and the
// maximum within any span of a window's length, for one request followed by a continuous load that begins just before the window of that
// first request ends.
func (r *run) exactness(ctx context.Context) error {
	const limit = 10
	tab := newTable("", "of 15", "of 256 at once", "most in one window", "")
	for _, c := range r.choose(
		gateOnRedis("sliding_log", store.SlidingLog, withCache),
		gateOnRedis("sliding_counter", store.SlidingCounter, withCache),
		gateOnRedis("gcra", store.GCRA, withCache),
		gateOnRedis("fixed_window", store.FixedWindow, withCache),
		gateOnMemory("sliding_log, memory", store.SlidingLog, withCache),
		redisRate, throttledRedis, ululeRedis, goLimiter, ululeMemory, rateMap,
	) {
		row, err := r.probe(ctx, c, limit, r.window)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		tab.add(append([]string{c.name}, row...)...)
	}
	r.print(tab, fmt.Sprintf("Units admitted at a limit of %d per window", limit))
	return nil
}

func (r *run) probe(ctx context.Context, c contender, limit int, window time.Duration) ([]string, error) {
	if err := r.redis.empty(ctx); err != nil {
		return nil, err
	}
	// A window that is too long to end during the test, even on a slow machine.
	ask, closed, err := c.open(r, limit, time.Hour)
	if err != nil {
		return nil, err
	}
	defer closed()
	inTurn, _, err := admittedOf(ctx, ask, "in-turn", 1, limit+5)
	if err != nil {
		return nil, err
	}
	atOnce, failed, err := admittedOf(ctx, ask, "at-once", r.callers, r.callers)
	if err != nil && failed == r.callers {
		return nil, err
	}

	brief, closed, err := c.open(r, limit, window)
	if err != nil {
		return nil, err
	}
	defer closed()
	most, err := mostWithin(ctx, brief, window)
	if err != nil {
		return nil, err
	}
	verdict, note := "exact", ""
	if most > limit || atOnce > limit {
		verdict = fmt.Sprintf("%d too many", max(most, atOnce)-limit)
	}
	if failed > 0 {
		note = fmt.Sprintf(" (%d failed)", failed)
	}
	return []string{strconv.Itoa(inTurn), strconv.Itoa(atOnce) + note, strconv.Itoa(most), verdict}, nil
}

// admittedOf makes n requests for one subject from this many callers.
func admittedOf(ctx context.Context, ask ask, subject string, callers, n int) (admitted, failed int, err error) {
	var (
		next, in, out atomic.Int64
		first         atomic.Pointer[error]
		wg            sync.WaitGroup
	)
	for range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				ok, err := ask(ctx, subject)
				switch {
				case err != nil:
					out.Add(1)
					first.CompareAndSwap(nil, &err)
				case ok:
					in.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if e := first.Load(); e != nil {
		err = *e
	}
	return int(in.Load()), int(out.Load()), err
}

// A unit that was admitted, with times of the caller's clock.
type unit struct{ asked, answered time.Duration }

// mostWithin makes one request for a subject, then a continuous load from nine tenths of a window on, and returns the maximum number of
// units admitted within one window.
func mostWithin(ctx context.Context, ask ask, window time.Duration) (int, error) {
	var units []unit
	start := time.Now()
	once := func() error {
		asked := time.Since(start)
		ok, err := ask(ctx, "crowd")
		if ok {
			units = append(units, unit{asked, time.Since(start)})
		}
		return err
	}
	if err := once(); err != nil {
		return 0, err
	}
	time.Sleep(window*9/10 - time.Since(start))
	for time.Since(start) < 5*window/2 {
		if err := once(); err != nil {
			return 0, err
		}
	}
	return densest(units, window), nil
}

// densest returns the maximum number of units within a span. Each unit was requested after the one before was answered. A span begins
// when its first unit is requested and ends before its last one is answered, so that network delays never make an exact limiter look
// inexact.
func densest(units []unit, span time.Duration) (most int) {
	for i, first := range units {
		n, _ := slices.BinarySearchFunc(units[i:], first.asked+span, func(u unit, end time.Duration) int {
			return cmp.Compare(u.answered, end)
		})
		most = max(most, n)
	}
	return most
}
