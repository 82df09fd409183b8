package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/rehearse"
)

const (
	unsafeFor = 20 * time.Second // how long a fault waits for the moment at which it takes no last copy
	healTime  = 90 * time.Second // for every process to be ready again
)

// crowd is who comes in a round: enough for the stock to be sold several times over, as orders expire and are cancelled.
func (c *cluster) crowd(seed uint64) rehearse.Options {
	return rehearse.Options{
		PublicURLs: c.public, InternalURL: c.internal[0], Token: c.token, Sale: sale, Items: []string{item}, Stock: 800, Hold: 3 * time.Second,
		Rate: 200, Duration: wave, DuplicateClicks: 0.2, HangUps: 0.05, Keyless: 0.1, Fates: rehearse.WholeLife(), Seed: seed,
		ClockSkew: time.Duration(int(seed%3)-1) * time.Hour, Limit: 100, Faults: true,
		Connections: 600, Followers: 200, RequestTimeout: 3 * time.Second, DrainTimeout: c.drainTime,
		HistoryFile: filepath.Join(c.dir, "history.jsonl"),
	}
}

// started tells when the crowd began: its first line of progress comes a second later.
type started struct {
	once sync.Once
	at   chan time.Time
}

func (s *started) Write(line []byte) (int, error) {
	s.once.Do(func() { s.at <- time.Now().Add(-time.Second) })
	return len(line), nil
}

// run is one round on a cluster: the crowd, the faults, the healing, the verdict.
func (c *cluster) run(p plan) *result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Minute)
	defer cancel()
	res := newResult(p)
	var (
		report *rehearse.Report
		err    error
		over   = make(chan struct{})
		begun  = &started{at: make(chan time.Time, 1)}
		o      = c.crowd(p.Seed)
	)
	o.Progress, c.answers.file = begun, o.HistoryFile
	defer func() { cancel(); <-over }() // also when a server does not come back and the test ends here
	go func() {
		defer close(over)
		report, err = rehearse.Run(ctx, o)
	}()
	select {
	case at := <-begun.at:
		c.follow(ctx, at, p, res)
	case <-over:
		c.must(fmt.Errorf("the crowd did not come: %w", err))
	}
	c.must(c.heal(ctx))
	c.drain(ctx, over)
	<-over
	if report == nil {
		c.must(fmt.Errorf("the crowd: %w", err))
	}
	if err != nil {
		res.breach("crowd", err.Error())
	}
	c.judge(ctx, res, report, o.HistoryFile)
	return res
}

// turn is something to do at a moment.
type turn struct {
	at    time.Time
	until time.Time // given up when it is still unsafe
	do    func() error
	safe  func() bool // nil: always
	note  func(error)
}

// follow carries the plan out, one thing at a time, what heals by itself later included.
func (c *cluster) follow(ctx context.Context, start time.Time, p plan, res *result) {
	var turns []turn
	for _, s := range p.Steps {
		if s.fault.prepare != nil {
			turns = append(turns, turn{at: start.Add(s.At - s.Before), do: func() error { return s.fault.prepare(c) }, note: func(err error) {
				if err != nil {
					res.skip(s, err)
				}
			}})
		}
		turns = append(turns, turn{
			at: start.Add(s.At), until: start.Add(s.At + unsafeFor),
			safe: func() bool { return c.safe(ctx, s.fault.takes) },
			do:   func() error { return s.fault.inject(ctx, c, s.params) },
			note: func(err error) {
				if err != nil {
					res.skip(s, err)
					return
				}
				c.t.Logf("seed %d: +%.3fs %s", p.Seed, time.Since(start).Seconds(), s)
				res.Injected[s.Fault]++
				if s.fault.takes == redises {
					c.lost = time.Now()
				}
				if s.fault.heal != nil {
					turns = append(turns, turn{at: time.Now().Add(s.For), do: func() error { return s.fault.heal(ctx, c, s.params) }, note: func(err error) { c.must(err) }})
				}
			},
		})
	}
	for len(turns) > 0 {
		i := slices.IndexFunc(turns, func(t turn) bool { return !slices.ContainsFunc(turns, func(u turn) bool { return u.at.Before(t.at) }) })
		t := turns[i]
		turns = slices.Delete(turns, i, i+1)
		if !pause(ctx, time.Until(t.at)) {
			return
		}
		if t.safe != nil && !t.safe() {
			if now := time.Now(); now.Before(t.until) {
				t.at = now.Add(100 * time.Millisecond)
				turns = append(turns, t)
			} else {
				t.note(errors.New("it would have taken the last copy of an order"))
			}
			continue
		}
		t.note(t.do())
	}
}

// heal ends everything that is broken, and waits until every process is ready.
func (c *cluster) heal(ctx context.Context) error {
	for _, n := range c.nodes() { // nothing is frozen any more: the plan is through
		if _, ending := n.lastEnd(); ending {
			n.restart("", 0)
			if !n.ended(ctx) {
				return ctx.Err()
			}
		}
	}
	if c.redisProxy != nil {
		c.redisProxy.Hear()
	}
	if c.postgresProxy != nil {
		c.postgresProxy.Hear()
	}
	return c.ready(healTime)
}

// drain waits until the crowd has seen everything settle. Asynq looks for tasks of dead workers when a server starts, and then once a
// minute: starting workers anew as soon as there are such tasks makes the wait short.
func (c *cluster) drain(ctx context.Context, over <-chan struct{}) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if n, err := c.abandonedTasks(ctx); err != nil || n == 0 {
			continue // asked again
		}
		for _, w := range c.workers {
			w.restart("", 0)
			w.ended(ctx)
		}
		c.must(c.ready(healTime))
	}
}

// reached counts how often a process died at its failpoint.
func (c *cluster) reached() (n int) {
	for _, node := range c.nodes() {
		log, _ := os.ReadFile(filepath.Join(c.dir, node.name+".log")) // a log that cannot be read says nothing
		n += bytes.Count(log, []byte(`"killed at a failpoint"`))
	}
	return n
}

// Run starts a cluster of the programs in bin, has the plan happen to it, waits up to drain for everything to settle, and tears it down.
// The folder dir keeps what is needed to find out what went wrong.
func Run(t testing.TB, bin, dir string, p plan, drain time.Duration) *result {
	t.Helper()
	began := time.Now()
	c := newCluster(t, bin, dir, p.needs)
	c.drainTime = drain
	res := c.run(p)
	res.Took = time.Since(began).Round(time.Second).Seconds()
	return res
}
