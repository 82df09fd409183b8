package orders

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pollInterval = 20 * time.Millisecond // between two looks into queues that were not empty lately
	pollIdle     = time.Second           // between two looks of a worker that nobody woke
	busyFor      = time.Second           // for so long after a task a worker looks often
)

// poller is the client of an Asynq server, which asks its queues over and over:
// a worker without work would cost as much as one with some. When nothing was
// found for busyFor, a poller makes the server wait until somebody enqueues, or pollIdle.
type poller struct {
	redis.UniversalClient
	first  string          // key of the queue that is asked once in a round
	woken  <-chan struct{} // somebody enqueued
	done   <-chan struct{} // the server is to stop
	idle   time.Duration
	latest atomic.Int64 // when a task was found, Unix nanoseconds
}

func newPoller(rdb redis.UniversalClient, queue string, woken, done <-chan struct{}) *poller {
	p := &poller{UniversalClient: rdb, first: "asynq:{" + queue + "}:pending", woken: woken, done: done, idle: pollIdle}
	p.latest.Store(time.Now().UnixNano())
	return p
}

// EvalSha runs all scripts of the server. Only the one that takes a task from a queue begins with the queue's pending tasks.
func (p *poller) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	takes := len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[3], ":lease")
	if takes && keys[0] == p.first && time.Since(time.Unix(0, p.latest.Load())) > busyFor {
		timer := time.NewTimer(p.idle)
		select {
		case <-p.woken:
			p.latest.Store(time.Now().UnixNano())
		case <-p.done:
		case <-timer.C:
		}
		timer.Stop()
	}
	reply := p.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	if takes && reply.Err() == nil {
		p.latest.Store(time.Now().UnixNano())
	}
	return reply
}

// wakeWorkers tells idle workers of a task. Those that found one within busyFor look often by themselves.
func (s *Service) wakeWorkers(ctx context.Context) {
	now := time.Now().UnixNano()
	if before := s.enqueued.Swap(now); now-before > int64(busyFor/2) {
		s.publish(ctx, bulletin{Queued: true})
	}
}
