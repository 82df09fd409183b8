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

	"github.com/tidegate/tidegate/admission"
)

// exactness shows how many units each limiter really admits where the limit says 10: of 15 requests one after the other, of
// 256 that come at once, and at most within any span of a window's length, of one request followed by a crowd that begins just
// before the window of that first request ends and does not stop.
func (r *run) exactness(ctx context.Context) error {
	const limit = 10
	tab := newTable("", "of 15", "of 256 at once", "most in one window", "")
	for _, c := range r.choose(
		gateOnRedis("sliding_log", admission.SlidingLog, withCache),
		gateOnRedis("sliding_counter", admission.SlidingCounter, withCache),
		gateOnRedis("gcra", admission.GCRA, withCache),
		gateOnRedis("fixed_window", admission.FixedWindow, withCache),
		gateOnMemory("sliding_log, memory", admission.SlidingLog, withCache),
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
	// A window that does not end meanwhile, whatever the machine does.
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

// admittedOf has callers ask n times about one subject.
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

// A unit that was admitted, by the clock of who asked for it.
type unit struct{ asked, answered time.Duration }

// mostWithin asks about one subject once, then again from nine tenths of a window on without stop, and returns the most
// units that were admitted within one window.
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

// densest returns the most units, of which each was asked for after the one before was answered, within a span. A span
// begins when its first unit was asked for and ends before its last was answered: so the way to the server never makes a limiter
// that is exact look as if it were not.
func densest(units []unit, span time.Duration) (most int) {
	for i, first := range units {
		n, _ := slices.BinarySearchFunc(units[i:], first.asked+span, func(u unit, end time.Duration) int {
			return cmp.Compare(u.answered, end)
		})
		most = max(most, n)
	}
	return most
}
