package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/rehearse"
)

const (
	waits    = 20 * time.Second // maximum wait of a fault until it destroys no last copy, and finds something to break
	healTime = 90 * time.Second // for every process to be ready again
)

// crowd returns the crowd of a round: large enough to sell the stock several times, as orders expire and are cancelled.
func (c *cluster) crowd(seed uint64) rehearse.Options {
	return rehearse.Options{
		PublicURLs: c.public, InternalURL: c.internal[0], Token: c.token, Sale: sale, Items: []string{item}, Stock: 4 * c.rate * int(c.wave/wave), Hold: 3 * time.Second,
		Rate: float64(c.rate), Duration: c.wave, DuplicateClicks: 0.2, HangUps: 0.05, Keyless: 0.1, Shares: rehearse.WholeLife(), Seed: seed,
		ClockSkew: time.Duration(int(seed%3)-1) * time.Hour, Limit: 100, Faults: true, Shared: true,
		Connections: 600, Followers: 200, RequestTimeout: 3 * time.Second, DrainTimeout: c.drainTime,
		HistoryFile: filepath.Join(c.dir, "history.jsonl"),
	}
}

// started reports when the crowd began: its first progress line comes one second later.
type started struct {
	begun atomic.Bool
	at    chan time.Time
}

func (s *started) Write(line []byte) (int, error) {
	if s.begun.CompareAndSwap(false, true) {
		s.at <- time.Now().Add(-time.Second)
	}
	return len(line), nil
}

// run executes one round on a cluster: crowd, faults, healing, verdict.
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
	o.Progress, o.Stopped, c.answers.file = begun, c.late.all, o.HistoryFile
	defer func() { cancel(); <-over }() // also when a server does not come back and the test ends here
	go func() {
		defer close(over)
		report, err = rehearse.Run(ctx, o)
	}()
	judgeRoom, endWatch := func(*result) {}, func() {}
	select {
	case at := <-begun.at:
		endWatch = c.watchOpenings(ctx)
		judgeRoom = c.throughARoom(ctx, p)
		c.follow(ctx, at, p, res)
		periodic.Pause(ctx, time.Until(at.Add(c.wave+time.Second))) // processes that are to die at a failpoint have until then
	case <-over:
		c.must(fmt.Errorf("the crowd did not start: %w", err))
	}
	c.must(c.heal(ctx))
	endWatch()
	c.drain(ctx, over)
	<-over
	if report == nil {
		c.must(fmt.Errorf("the crowd: %w", err))
	}
	if err != nil {
		res.breach("crowd", err.Error())
	}
	judgeRoom(res)
	c.judge(ctx, res, report, o.HistoryFile)
	return res
}

// turn is a step that is due at a time.
type turn struct {
	step
	at       time.Time
	until    time.Time // given up if it is still unsafe then
	prepared bool
}

// follow executes the plan, one step at a time. Faults heal on their own timers, whatever the next step waits for.
func (c *cluster) follow(ctx context.Context, start time.Time, p plan, res *result) {
	var turns []turn
	for _, s := range p.Steps {
		turns = append(turns, turn{step: s, at: start.Add(s.At - s.Before), until: start.Add(s.At + waits)})
	}
	for len(turns) > 0 {
		slices.SortStableFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
		t := turns[0]
		turns = turns[1:]
		if !periodic.Pause(ctx, time.Until(t.at)) {
			break
		}
		switch safe := c.safe(ctx, t.fault.takes); {
		case safe && t.fault.prepare != nil && !t.prepared:
			// Only now, so that the fault restores a state of exactly the planned age.
			began := time.Now()
			c.must(t.fault.prepare(c))
			t.prepared, t.at = true, time.Now().Add(t.Before)
			c.openings.effect(began, t.at)
			turns = append(turns, t)
		case safe && c.inject(ctx, start, t.step, res):
		default:
			if t.prepared && t.fault.heal != nil { // what was prepared may be what keeps it unsafe
				t.fault.heal(c, t.params)
			}
			if time.Now().After(t.until) {
				res.skip(t.step, errors.New("it would destroy the last copy of an order, or found nothing to break"))
				continue
			}
			t.prepared, t.at = false, time.Now().Add(100*time.Millisecond)
			turns = append(turns, t)
		}
	}
	c.healing.Wait()
}

// inject injects one fault. It reports whether the step is done: if a process is down just now, or no client is connected to a
// server, the fault can be retried a moment later.
func (c *cluster) inject(ctx context.Context, start time.Time, s step, res *result) bool {
	began := time.Now()
	err := s.fault.inject(ctx, c, s.params)
	if !s.fault.aside {
		c.openings.effect(began, time.Now().Add(s.For))
	}
	if s.fault.heal != nil { // also after an error, because the fault may be partly injected
		c.healing.Go(func() {
			periodic.Pause(ctx, s.For)
			s.fault.heal(c, s.params)
		})
	}
	if errors.Is(err, errNothingThere) {
		return false
	}
	if err != nil {
		res.skip(s, err)
		return true
	}
	c.t.Logf("seed %d: +%.3fs %s", res.Seed, time.Since(start).Seconds(), s)
	res.Injected[s.Fault]++
	if s.Kind != "" {
		res.Kinds[s.Fault+"="+s.Kind]++
	}
	if s.fault.takes == redises {
		c.lost = time.Now()
		c.late.loss(c.lost)
	}
	return true
}

// heal ends all faults, and waits until every process is ready.
func (c *cluster) heal(ctx context.Context) error {
	if c.hosts != nil {
		if err := c.hosts.heal(ctx); err != nil {
			return err
		}
		return c.ready(healTime)
	}
	for _, n := range c.nodes() { // nothing is frozen any more: the plan is finished
		if _, ending := n.lastEnd(); ending {
			began := time.Now()
			n.restart("", 0)
			if !n.ended(ctx) {
				return ctx.Err()
			}
			c.openings.effect(began, time.Now())
		}
	}
	if c.redisProxy != nil {
		c.redisProxy.Hear()
	}
	if c.postgresProxy != nil {
		c.postgresProxy.Hear()
		c.postgresProxy.Admit()
	}
	return c.ready(healTime)
}

// drain waits until the crowd has seen everything settle, and then, for up to drainTime, until no task is left and the orders of the
// harness itself have ended. Asynq looks for tasks
// of dead workers when a server starts, and then once a minute, so restarting the workers when there are such tasks shortens the wait.
func (c *cluster) drain(ctx context.Context, over <-chan struct{}) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	var until time.Time
	for {
		select {
		case <-over:
			over, until = nil, time.Now().Add(c.drainTime)
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if over == nil {
			if c.settled(ctx) || time.Now().After(until) {
				return
			}
		}
		if n, err := c.releaseAbandonedTasks(ctx); err != nil || n == 0 {
			continue // retried
		}
		if c.hosts != nil {
			c.must(c.hosts.restart(ctx, "worker-1", "worker-2"))
		}
		for _, w := range c.workers {
			w.restart("", 0)
			w.ended(ctx)
		}
		c.must(c.ready(healTime))
	}
}

// settled reports whether no task is left in a queue, no order waits for its commit or its payment, and no unit for its return.
func (c *cluster) settled(ctx context.Context) bool {
	var waiting bool
	err := c.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM orders WHERE sale = $1 AND status = 'confirmed' AND pay_before IS NOT NULL) OR EXISTS (SELECT FROM order_returns)`, sale).Scan(&waiting)
	if err != nil || waiting {
		return false
	}
	rdb := c.rdb()
	defer rdb.Close()
	if pending, err := pendingRecords(ctx, rdb); err != nil || len(pending) > 0 {
		return false
	}
	left, err := c.lookAtQueues(ctx)
	return err == nil && left.Count == 0
}

// reached counts how often a process died at its failpoint.
func (c *cluster) reached() (n int) {
	for _, node := range c.nodes() {
		log, _ := os.ReadFile(filepath.Join(c.dir, node.name+".log")) // an unreadable log counts as empty
		n += bytes.Count(log, []byte(`"killed at a failpoint"`))
	}
	return n
}

// roundSize is the size of a round.
type roundSize struct {
	Rate  int           // new buyers per second; there are four units for each
	Drain time.Duration // how long it may take until everything has settled
	// Reopen is how long a sale may stay closed after the end of a fault.
	Reopen time.Duration
	// Visitors go through a waiting room to another sale.
	Visitors int
}

// runRound starts a cluster of the programs in bin, executes the plan, and stops the cluster. The folder dir keeps the data
// for an analysis.
func runRound(t testing.TB, bin, dir string, p plan, size roundSize) *result {
	t.Helper()
	began := time.Now()
	c := newCluster(t, bin, dir, p.needs)
	c.rate, c.drainTime, c.reopenTime, c.visitors = size.Rate, size.Drain, size.Reopen, size.Visitors
	res := c.run(p)
	res.Took = time.Since(began).Round(time.Second).Seconds()
	return res
}
