package asynqueue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	interval = 2 * time.Millisecond // between two polls while there are tasks
	idle     = time.Second          // between two rounds that find no task, at most
	backOff  = 8                    // that time, as a fraction of the time since p.lost

	pause = 100 * time.Millisecond // after a poll that failed
)

// A poller is the client of an Asynq server, which polls its queues constantly: an idle worker would cost as much as a busy one.
// So a poller lets the server poll as often as tasks were signalled. Some may not have been, so once a second the server polls until it finds
// no task, and more often after it found two in a row that were not signalled.
type poller struct {
	redis.UniversalClient
	queues  int
	signals *signals
	done    <-chan struct{} // closed when the server is to stop
	idle    time.Duration

	// The server polls all queues in turn, until it finds a task. These are of its one polling goroutine.
	polled  int       // queues in this round
	before  int       // signals at its beginning
	began   time.Time // when it began
	drained time.Time // when the latest round began that found no task
	early   bool      // the latest task was found without a signal
	lost    time.Time // when the second such task in a row was found
	failed  bool      // the latest poll did
	unknown bool      // Redis did not have the script
}

// newPoller returns the client of a server that polls so many queues. done is closed when the server is to stop.
func newPoller(rdb redis.UniversalClient, queues int, s *signals, done <-chan struct{}) *poller {
	return &poller{UniversalClient: rdb, queues: queues, signals: s, done: done, idle: idle}
}

// EvalSha runs all scripts of the server.
func (p *poller) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return p.poll(keys, func() *redis.Cmd {
		return p.UniversalClient.EvalSha(ctx, sha1, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// Eval does the same for a Redis that does not have the script.
func (p *poller) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return p.poll(keys, func() *redis.Cmd {
		return p.UniversalClient.Eval(ctx, script, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// poll runs a script. That which takes a task from a queue is the one whose first key is the queue's pending list.
func (p *poller) poll(keys []string, run func() *redis.Cmd) *redis.Cmd {
	if len(keys) != 4 || !strings.HasSuffix(keys[0], ":pending") || !strings.HasSuffix(keys[3], ":lease") {
		return run()
	}
	if p.polled == 0 && !p.unknown {
		p.wait()
		p.began, p.before = time.Now(), p.signals.count()
	}
	reply := run()
	err := reply.Err()
	p.failed, p.unknown = false, redis.HasErrorPrefix(err, "NOSCRIPT")
	switch {
	case p.unknown: // Eval follows
	case err == nil:
		p.polled = 0
		if p.before == 0 && p.early { // of one task the signal may be on its way
			p.lost = time.Now()
		}
		p.early = p.before == 0
		p.signals.take(1)
	case !errors.Is(err, redis.Nil): // the server ends the round
		p.polled, p.failed = 0, true
	default:
		if p.polled++; p.polled == p.queues {
			p.polled, p.drained = 0, p.began
			p.signals.take(p.before)
		}
	}
	return reply
}

// wait waits until a poll may find a task.
func (p *poller) wait() {
	rest := min(p.idle, time.Since(p.lost)/backOff) - time.Since(p.drained)
	if p.failed {
		rest = pause
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for rest > 0 && (p.failed || p.signals.count() == 0) {
		select {
		case <-p.signals.wake: // perhaps of a signal that was counted before
		case <-p.done:
			return
		case <-timer.C:
			return
		}
	}
}

// signals counts the tasks that were signalled and neither found here nor looked for in vain since.
type signals struct {
	mu   sync.Mutex
	n    int           // guarded by mu
	wake chan struct{} // capacity 1: one was added
}

func newSignals() *signals { return &signals{wake: make(chan struct{}, 1)} }

func (s *signals) add() {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *signals) take(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = max(0, s.n-n)
}

func (s *signals) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// A signaller is the client of those who put tasks into queues. It signals each task on a channel that is named like the queue's
// pending list, in the same write; but in a cluster afterwards, since there the signal could arrive before its task.
type signaller struct{ redis.UniversalClient }

// EvalSha puts a task into a queue.
func (s signaller) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return s.signal(ctx, keys, func(c redis.Scripter) *redis.Cmd {
		return c.EvalSha(ctx, sha1, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// Eval does the same for a server that does not have the script.
func (s signaller) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return s.signal(ctx, keys, func(c redis.Scripter) *redis.Cmd {
		return c.Eval(ctx, script, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// signal runs a script, and signals if it puts a task where workers take it.
func (s signaller) signal(ctx context.Context, keys []string, run func(redis.Scripter) *redis.Cmd) *redis.Cmd {
	if len(keys) != 2 || !strings.HasSuffix(keys[1], ":pending") {
		return run(s.UniversalClient)
	}
	// Each command has its error, and a signal that is lost costs time only.
	if _, ok := s.UniversalClient.(*redis.ClusterClient); ok {
		reply := run(s.UniversalClient)
		if reply.Err() == nil {
			s.Publish(ctx, keys[1], "")
		}
		return reply
	}
	p := s.Pipeline()
	reply := run(p)
	p.Publish(ctx, keys[1], "")
	_, _ = p.Exec(ctx)
	return reply
}
