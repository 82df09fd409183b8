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

// ask makes one request to a limiter for a subject.
type ask func(ctx context.Context, subject string) (admitted bool, err error)

// A contender is a limiter in the comparison.
type contender struct {
	name string
	// open returns a new limiter that admits limit units per window. closed releases it.
	open func(r *run, limit int, window time.Duration) (ask ask, closed func(), err error)
}

// A result is the outcome of one turn.
type result struct {
	asked, admitted, failed int64
	perSecond               float64
	p50, p99                time.Duration
	err                     error // one of the errors of failed
}

// load has callers make requests for random subjects for a while. It measures the time of one in sample calls of each caller: for calls
// that take nanoseconds, reading the clock would dominate.
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

// once makes n requests for every subject, as fast as possible.
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

// A trial is a comparison of contenders under the same load.
type trial struct {
	contenders []contender // the first is the baseline
	limit      int
	window     time.Duration
	subjects   int
	before     int  // units taken by every subject before the measurement
	sample     uint // see load
}

// compare runs every contender once per round, and returns the results by contender and round.
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
