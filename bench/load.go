package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// ask asks a limiter once about one subject.
type ask func(ctx context.Context, subject string) (admitted bool, err error)

// A contender is a limiter as it takes part.
type contender struct {
	name string
	// open makes a new limiter that lets limit units per window pass. closed ends it.
	open func(r *run, limit int, window time.Duration) (ask ask, closed func(), err error)
}

// A result is what one turn came to.
type result struct {
	asked, admitted, failed int64
	perSecond               float64
	p50, p99                time.Duration
	err                     error // one of failed
}

// load has callers ask about subjects at random for a while. Of every caller's calls one in sample is timed: where a call takes
// nanoseconds, looking at the clock would be most of it.
func load(ctx context.Context, ask ask, subjects []string, callers int, length time.Duration, sample uint) result {
	var (
		res  result
		mu   sync.Mutex
		hist = newHistogram()
		wg   sync.WaitGroup
		over atomic.Bool
	)
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	start := time.Now()
	for range callers {
		wg.Go(func() {
			own, mine := newHistogram(), result{}
			rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for n := uint(0); !over.Load() && ctx.Err() == nil; n++ {
				subject := subjects[rng.IntN(len(subjects))]
				var from time.Time
				if n%sample == 0 {
					from = time.Now()
				}
				admitted, err := ask(ctx, subject)
				if n%sample == 0 {
					_ = own.RecordValue(int64(time.Since(from)))
				}
				mine.asked++
				switch {
				case err != nil:
					mine.failed++
					mine.err = err
				case admitted:
					mine.admitted++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			hist.Merge(own)
			res.asked += mine.asked
			res.admitted += mine.admitted
			res.failed += mine.failed
			if mine.err != nil {
				res.err = mine.err
			}
		})
	}
	wg.Wait()
	res.perSecond = float64(res.asked-res.failed) / time.Since(start).Seconds()
	res.p50, res.p99 = time.Duration(hist.ValueAtQuantile(50)), time.Duration(hist.ValueAtQuantile(99))
	return res
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 2) }

// once asks n times about every subject, as fast as it goes.
func once(ctx context.Context, ask ask, subjects []string, callers, n int) error {
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		first atomic.Pointer[error]
	)
	for range callers {
		wg.Go(func() {
			for first.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(subjects)*n {
					return
				}
				if _, err := ask(ctx, subjects[i%len(subjects)]); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// A trial is how the contenders of one table are asked.
type trial struct {
	contenders []contender // the first is what the others are held against
	limit      int
	window     time.Duration
	subjects   int
	before     int  // units that every subject has taken when time begins
	sample     uint // see load
}

// compare gives every contender its turn in every round, and returns the results by contender, then round.
func (r *run) compare(ctx context.Context, t trial) ([][]result, error) {
	results := make([][]result, len(t.contenders))
	for round := range r.rounds {
		subjects := names(t.subjects, fmt.Sprintf("user-%d-", round))
		for i, c := range t.contenders {
			res, err := r.turn(ctx, t, c, subjects, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			results[i] = append(results[i], res)
		}
	}
	return results, nil
}

func (r *run) turn(ctx context.Context, t trial, c contender, subjects []string, round int) (res result, err error) {
	if err := r.redis.empty(ctx); err != nil {
		return res, err
	}
	ask, closed, err := c.open(r, t.limit, t.window)
	if err != nil {
		return res, err
	}
	defer closed()
	if err := once(ctx, ask, subjects, r.callers, t.before); err != nil {
		return res, err
	}
	if r.cpuProfile != "" && round == 0 {
		f, err := os.Create(r.cpuProfile + strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(c.name) + ".pprof")
		if err != nil {
			return res, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return res, err
		}
		defer pprof.StopCPUProfile()
	}
	res = load(ctx, ask, subjects, r.callers, r.length, t.sample)
	if res.asked == res.failed && res.err != nil {
		return res, res.err
	}
	return res, ctx.Err()
}

// names returns n subjects.
func names(n int, prefix string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%07d", prefix, i)
	}
	return out
}
