package crowd

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A Rush is a number of buyers who arrive at a given rate, whatever the answers, and retry until they have a definite answer.
type Rush struct {
	Addrs       []string
	Connections int // maximum number of concurrent requests
	Request     func(buyer int64) []byte
	PerSecond   float64
	Length      time.Duration // period in which buyers arrive; after the same time again, those without an answer give up
	Impatient   bool          // buyers retry every 100 ms and ignore Retry-After
}

// A RushResult is the outcome of a rush.
type RushResult struct {
	Buyers   int64         // buyers who arrived
	Admitted int64         // buyers who were answered 202
	During   int64         // of Admitted, those answered while buyers arrived
	Lost     int64         // requests without an answer or with 503
	Refused  int64         // buyers with another definite answer
	Longest  time.Duration // longest Retry-After
	waits    []time.Duration
}

// Quantile returns a quantile of the times from a buyer's planned time to the 202.
func (r *RushResult) Quantile(q float64) time.Duration { return Quantile(r.waits, q) }

// Run runs the rush.
func (r *Rush) Run(ctx context.Context) *RushResult {
	conns := make(chan *conn, r.Connections)
	for i := range r.Connections {
		conns <- &conn{addr: r.Addrs[i%len(r.Addrs)]}
	}
	start := time.Now()
	end := start.Add(r.Length)
	ctx, cancel := context.WithDeadline(ctx, end.Add(r.Length))
	defer cancel()
	var (
		res = &RushResult{}
		mu  sync.Mutex
		wg  sync.WaitGroup
		rng = rand.New(rand.NewPCG(3, 4)) // fixed seed: the same crowd each time
	)
	for at := start; ; res.Buyers++ {
		if at = at.Add(time.Duration(rng.ExpFloat64() / r.PerSecond * float64(time.Second))); at.After(end) {
			break
		}
		if wait := time.Until(at); wait > 0 {
			time.Sleep(wait)
		}
		buyer, planned := res.Buyers, at
		wg.Go(func() {
			lost, a, known := r.buy(ctx, conns, buyer)
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			res.Lost += lost
			res.Longest = max(res.Longest, a.RetryAfter)
			switch {
			case known && a.Status == 202:
				res.Admitted++
				if now.Before(end) {
					res.During++
				}
				res.waits = append(res.waits, now.Sub(planned))
			case known:
				res.Refused++
			}
		})
	}
	wg.Wait()
	for range r.Connections {
		(<-conns).close()
	}
	return res
}

// buy retries until the answer is definite or ctx ends. RetryAfter of the result is the longest one received.
func (r *Rush) buy(ctx context.Context, conns chan *conn, buyer int64) (lost int64, a Answer, known bool) {
	request, longest := r.Request(buyer), time.Duration(0)
	for {
		var c *conn
		select {
		case c = <-conns:
		case <-ctx.Done():
			return lost, Answer{RetryAfter: longest}, false
		}
		a, _ = c.do(ctx, request) // status 0 on error
		a.Body = nil
		conns <- c
		if a.Status != 0 && a.Status != 503 {
			a.RetryAfter = longest
			return lost, a, true
		}
		lost++
		longest = max(longest, a.RetryAfter)
		wait := max(a.RetryAfter, time.Second)
		if r.Impatient {
			wait = 100 * time.Millisecond
		}
		timer := time.NewTimer(wait + rand.N(wait/10))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return lost, Answer{RetryAfter: longest}, false
		}
	}
}
