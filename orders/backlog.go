package orders

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Backlog counts the orders of all processes that are accepted and not committed yet.
type Backlog struct {
	Orders int
	// Oldest is the age of the oldest order; 0 without orders. If many orders wait, it is the age of one of the oldest.
	Oldest time.Duration
}

// InWork returns the number of tasks that workers are processing, according to the queue's Redis. A task has one order or more.
func (s *Service) InWork(ctx context.Context) (int, error) {
	tasks, err := s.queued(ctx)
	return tasks[taskActive], err
}

// Committed returns how many orders all processes committed, as far as this process was notified since it started. Commits made
// while Redis is unreachable may be missing.
func (s *Service) Committed() uint64 { return s.committed.Load() }

// Backlog counts uncommitted orders in one round trip, however many there are. Items that are recovering are left out.
func (s *Service) Backlog(ctx context.Context) (Backlog, error) {
	var (
		counts []*redis.IntCmd
		oldest []*redis.StringSliceCmd
		b      Backlog
	)
	_, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, ci := range s.catalog.Load().byNumber {
			if !ci.forgottenAt(time.Now()) {
				counts = append(counts, p.HLen(ctx, ci.keys[2]))
				oldest = append(oldest, p.ZRange(ctx, ci.keys[3], 0, 0))
			}
		}
		return nil
	})
	if err != nil {
		return b, unavailable(err)
	}
	now, _ := s.clock.now()
	for i := range counts {
		b.Orders += int(counts[i].Val())
		if first := oldest[i].Val(); len(first) > 0 {
			// The score is the time of a sweeper's last claim. Sweepers claim the oldest orders first, so this one was accepted
			// before the others.
			if id, err := ParseID(first[0]); err == nil {
				b.Oldest = max(b.Oldest, now.Sub(id.time()))
			}
		}
	}
	return b, nil
}
