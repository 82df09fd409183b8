package crowd

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Crowd sends requests that are built from consecutive numbers, in that order as far as connections allow.
type Crowd struct {
	Addrs       []string // of the servers; connections are distributed evenly
	Connections int      // also the maximum number of concurrent requests
	Request     func(i int64) []byte
	// Answered, if not nil, is called with each answer, concurrently from several goroutines. Status 0: there was none.
	Answered func(i int64, a Answer, at time.Time)
}

// A Result is the outcome of a crowd.
type Result struct {
	Took     time.Duration
	Statuses map[int]int64 // number of answers by status; 0: no answer
	Err      error         // an error of one of the requests without an answer
	accepted *hdrhistogram.Histogram
	answered *hdrhistogram.Histogram
}

// PerSecond is the rate of answers with a status.
func (r *Result) PerSecond(status int) float64 { return float64(r.Statuses[status]) / r.Took.Seconds() }

// Quantile returns a quantile of the times until a 202 or a 200: in a closed loop from sending, in an open one from the planned moment.
func (r *Result) Quantile(q float64) time.Duration {
	return time.Duration(r.accepted.ValueAtQuantile(q))
}

// Answered returns a quantile of the times until any answer.
func (r *Result) Answered(q float64) time.Duration {
	return time.Duration(r.answered.ValueAtQuantile(q))
}

// Closed sends requests for a while, each connection its next one when it has the answer to the last.
func (c *Crowd) Closed(ctx context.Context, length time.Duration) *Result {
	var next atomic.Int64
	end := time.Now().Add(length)
	return c.run(ctx, func() (int64, time.Time, bool) {
		now := time.Now()
		return next.Add(1) - 1, now, now.Before(end)
	})
}

// Exactly is Closed for n requests.
func (c *Crowd) Exactly(ctx context.Context, n int64) *Result {
	var next atomic.Int64
	return c.run(ctx, func() (int64, time.Time, bool) {
		i := next.Add(1) - 1
		return i, time.Now(), i < n
	})
}

// Open sends requests at moments that do not depend on the answers: a Poisson process with perSecond as its rate. If all connections are
// busy, requests are sent late, and their times still count from the planned moment (no coordinated omission).
func (c *Crowd) Open(ctx context.Context, length time.Duration, perSecond float64) *Result {
	var (
		rng     = rand.New(rand.NewPCG(1, 2)) // fixed seed: the same crowd each time
		planned []time.Duration
		at      time.Duration
		next    atomic.Int64
	)
	for {
		at += time.Duration(rng.ExpFloat64() / perSecond * float64(time.Second))
		if at >= length {
			break
		}
		planned = append(planned, at)
	}
	start := time.Now()
	return c.run(ctx, func() (int64, time.Time, bool) {
		i := next.Add(1) - 1
		if i >= int64(len(planned)) {
			return 0, time.Time{}, false
		}
		return i, start.Add(planned[i]), true
	})
}

// run sends the requests that turn returns, a number and a moment each, until turn returns false.
func (c *Crowd) run(ctx context.Context, turn func() (int64, time.Time, bool)) *Result {
	var (
		res = &Result{Statuses: map[int]int64{}, accepted: newHistogram(), answered: newHistogram()}
		mu  sync.Mutex
		wg  sync.WaitGroup
	)
	start := time.Now()
	for n := range c.Connections {
		wg.Go(func() {
			own := conn{addr: c.Addrs[n%len(c.Addrs)]}
			defer own.close()
			statuses, accepted, answered, failed := map[int]int64{}, newHistogram(), newHistogram(), error(nil)
			for ctx.Err() == nil {
				i, planned, more := turn()
				if !more {
					break
				}
				request := c.Request(i)
				if wait := time.Until(planned); wait > 0 {
					time.Sleep(wait)
				}
				a, err := own.do(ctx, request)
				now := time.Now()
				if err != nil {
					failed = err
				}
				statuses[a.Status]++
				_ = answered.RecordValue(int64(now.Sub(planned)))
				if a.Status == 202 || a.Status == 200 {
					_ = accepted.RecordValue(int64(now.Sub(planned)))
				}
				if c.Answered != nil {
					c.Answered(i, a, now)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for status, n := range statuses {
				res.Statuses[status] += n
			}
			res.accepted.Merge(accepted)
			res.answered.Merge(answered)
			if failed != nil {
				res.Err = failed
			}
		})
	}
	wg.Wait()
	res.Took = time.Since(start)
	return res
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(5*time.Minute), 2)
}

// Quantile returns a quantile of durations, 0 for none. It sorts them.
func Quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[min(len(of)-1, int(float64(len(of))*q/100))]
}
