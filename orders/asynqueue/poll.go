package asynqueue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	interval = 2 * time.Millisecond // between two polls while there are tasks
	idle     = time.Second          // between two rounds that find no task, at most
	backOff  = 8                    // that time, as a fraction of the time since p.lost

	pause = 100 * time.Millisecond // after a poll that failed

	endWithin = 50 * time.Millisecond // the end of a task waits for a poll
)

// A poller is the client of an Asynq server, which polls its queues constantly: an idle worker would cost as much as a busy one.
// So a poller lets the server poll as often as tasks were signalled. Some may not have been, so once a second the server polls until it finds
// no task, and more often after it found two in a row that were not signalled. The ends of tasks share the round trip of the next poll: a task
// whose end is lost comes again, and its orders are committed already. On a cluster, where another server may be away, each ends alone.
type poller struct {
	redis.UniversalClient
	queues  int
	signals *signals
	done    <-chan struct{} // closed when the server is to stop
	idle    time.Duration
	ends    chan *end    // of tasks, each until a poll takes it along
	slots   int64        // of tasks; while all are taken the server does not poll
	taken   atomic.Int64 // by tasks that are handled or wait for their end

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

// newPoller returns the client of a server that polls so many queues for so many tasks at once. done is closed when the server is to stop.
func newPoller(rdb redis.UniversalClient, queues, slots int, s *signals, done <-chan struct{}) *poller {
	return &poller{UniversalClient: rdb, queues: queues, slots: int64(slots), signals: s, done: done, idle: idle, ends: make(chan *end)}
}

// handle handles a task.
func (p *poller) handle(task func() error) error {
	p.taken.Add(1)
	defer p.taken.Add(-1)
	return task()
}

// EvalSha runs all scripts of the server.
func (p *poller) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, keys, func(c redis.Scripter) *redis.Cmd {
		return c.EvalSha(ctx, sha1, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// Eval does the same for a Redis that does not have the script.
func (p *poller) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, keys, func(c redis.Scripter) *redis.Cmd {
		return c.Eval(ctx, script, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	})
}

// run runs a script. That which takes a task from a queue is the one whose first key is the queue's pending list; that which ends one has
// its active list and four more.
func (p *poller) run(ctx context.Context, keys []string, script script) *redis.Cmd {
	switch {
	case len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[3], ":lease"):
		return p.poll(ctx, script)
	case len(keys) == 5 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[1], ":lease"):
		return p.end(script)
	default:
		return script(p.UniversalClient)
	}
}

// A script is sent to Redis, or joins a pipeline.
type script func(redis.Scripter) *redis.Cmd

// end runs a script that ends a task: with the next poll, or alone if none comes soon.
func (p *poller) end(script script) *redis.Cmd {
	taken := p.taken.Add(1)
	defer p.taken.Add(-1)
	if _, many := p.UniversalClient.(*redis.ClusterClient); many || taken >= p.slots {
		return script(p.UniversalClient)
	}
	e := &end{script, make(chan *redis.Cmd, 1)}
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case p.ends <- e:
		return <-e.reply
	case <-timer.C:
	case <-p.done:
	}
	return script(p.UniversalClient)
}

// An end of a task waits for its reply.
type end struct {
	script script
	reply  chan *redis.Cmd
}

// send sends a script, and with it the ends of tasks that wait.
func (p *poller) send(ctx context.Context, script script) *redis.Cmd {
	var ends []*end
	for waiting := true; waiting; {
		select {
		case e := <-p.ends:
			ends = append(ends, e)
		default:
			waiting = false
		}
	}
	if len(ends) == 0 {
		return script(p.UniversalClient)
	}
	pipeline, replies := p.Pipeline(), make([]*redis.Cmd, len(ends))
	for i, e := range ends {
		replies[i] = e.script(pipeline)
	}
	reply := script(pipeline) // last: once its reply is there, nothing is sent again
	_, _ = pipeline.Exec(ctx) // each command has its error
	for i, e := range ends {
		e.reply <- replies[i]
	}
	return reply
}

// poll takes a task from a queue when there may be one.
func (p *poller) poll(ctx context.Context, script script) *redis.Cmd {
	if p.polled == 0 && !p.unknown {
		p.wait()
		p.began, p.before = time.Now(), p.signals.count()
	}
	reply := p.send(ctx, script)
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
