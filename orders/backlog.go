package orders

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Backlog is what was accepted and is not committed yet, in all processes.
type Backlog struct {
	Orders int
	// Oldest is how long ago the oldest was accepted; 0 without orders. Where many wait it is that of one of the oldest.
	Oldest time.Duration
}

// InWork is how many tasks workers have taken up, as far as the queue's Redis knows. A task has one order or more.
func (s *Service) InWork(ctx context.Context) (int, error) {
	tasks, err := s.queued(ctx)
	return tasks[taskActive], err
}

// Committed is how many commits of orders this process was told of since it was made, by all processes. It may miss some while Redis is away.
func (s *Service) Committed() uint64 { return s.committed.Load() }

// Backlog counts what waits, in one round trip whatever waits. Items that are recovering are left out.
func (s *Service) Backlog(ctx context.Context) (Backlog, error) {
	var (
		counts []*redis.IntCmd
		oldest []*redis.StringSliceCmd
		b      Backlog
	)
	_, err := s.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, sh := range s.catalog.Load().byNumber {
			if !sh.forgottenAt(time.Now()) {
				counts = append(counts, p.HLen(ctx, sh.keys[2]))
				oldest = append(oldest, p.ZRange(ctx, sh.keys[3], 0, 0))
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
			// Its score is when a sweeper last took it up. They take the oldest first, so it was accepted before the others, too.
			if id, err := ParseID(first[0]); err == nil {
				b.Oldest = max(b.Oldest, now.Sub(id.time()))
			}
		}
	}
	return b, nil
}
