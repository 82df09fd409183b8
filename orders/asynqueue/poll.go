package asynqueue

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/orders/internal/tasks"
)

const (
	interval = 2 * time.Millisecond // between two polls of a busy server, at least
	idle     = time.Second          // between two polls of an idle server

	backOff = 8 // a poll is delayed by this fraction of the time since the latest task
)

// A poller is the client of an Asynq server, which polls its queues constantly: an idle worker would cost as much as a busy one.
// So a poller delays the server's polls: the more, the longer ago the latest task was found, and after tasks.Pause until a task is
// enqueued, or for a second.
type poller struct {
	redis.UniversalClient
	first  string          // key of the queue that is polled once in a round
	woken  <-chan struct{} // receives when a task was enqueued
	done   <-chan struct{} // closed when the server is to stop
	idle   time.Duration
	latest atomic.Int64 // when a task was found, Unix nanoseconds
}

// newPoller returns the client of a server that polls queue once in each round. woken receives when a task was enqueued, and done is
// closed when the server is to stop.
func newPoller(rdb redis.UniversalClient, queue string, woken, done <-chan struct{}) *poller {
	p := &poller{UniversalClient: rdb, first: asynqkeys.Key(queue, "pending"), woken: woken, done: done, idle: idle}
	p.latest.Store(time.Now().UnixNano())
	return p
}

// EvalSha runs all scripts of the server. The script that takes a task from a queue is the one whose first key is the queue's
// pending list.
func (p *poller) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	takes := len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[3], ":lease")
	if delay := p.delay(); takes && keys[0] == p.first && delay > interval {
		timer := time.NewTimer(delay)
		select {
		case <-p.woken:
			p.latest.Store(time.Now().UnixNano())
		case <-p.done:
		case <-timer.C:
		}
		timer.Stop()
	}
	reply := p.UniversalClient.EvalSha(ctx, sha1, keys, args...) //nolint:forbidigo // the scripts are those of Asynq
	if takes && reply.Err() == nil {
		p.latest.Store(time.Now().UnixNano())
	}
	return reply
}

// delay returns how long to wait before the next poll.
func (p *poller) delay() time.Duration {
	since := time.Since(time.Unix(0, p.latest.Load()))
	if since > tasks.Pause {
		return p.idle
	}
	return since / backOff
}
