package crowd

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A Rush is buyers who come at a given pace, whatever the answers, and each of whom tries again until he knows.
type Rush struct {
	Addrs       []string
	Connections int // the most requests under way at once
	Request     func(buyer int64) []byte
	PerSecond   float64
	Length      time.Duration // in which buyers come; after as much again those who do not know yet give up
	Impatient   bool          // they try again every 100 ms, whatever Retry-After says
}

// A RushResult is what buyers came to.
type RushResult struct {
	Buyers   int64         // who came
	Admitted int64         // who were answered 202
	During   int64         // of them, while buyers came
	Lost     int64         // requests without an answer or with 503
	Refused  int64         // buyers who got another answer
	Longest  time.Duration // that Retry-After asked for
	waits    []time.Duration
}

// Quantile of the times from a buyer's planned moment to his 202.
func (r *RushResult) Quantile(q float64) time.Duration { return Quantile(r.waits, q) }

// Run has them come.
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
		rng = rand.New(rand.NewPCG(3, 4)) // the same crowd each time
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

// buy tries until the answer is definite or ctx ends. The RetryAfter of what it returns is the longest that it was told.
func (r *Rush) buy(ctx context.Context, conns chan *conn, buyer int64) (lost int64, a Answer, known bool) {
	request, longest := r.Request(buyer), time.Duration(0)
	for {
		var c *conn
		select {
		case c = <-conns:
		case <-ctx.Done():
			return lost, Answer{RetryAfter: longest}, false
		}
		a, _ = c.do(ctx, request) // status 0 says so
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
