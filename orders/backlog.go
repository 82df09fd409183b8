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

// Backlog counts uncommitted orders in one round trip, however many there are. Items that are recovering are left out.
func (a *verifier) Backlog(ctx context.Context) (Backlog, error) {
	var (
		counts []*redis.IntCmd
		oldest []*redis.StringSliceCmd
		b      Backlog
	)
	_, err := a.base.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, ci := range a.sales.catalog.Load().byNumber {
			if !ci.forgottenAt(time.Now()) {
				counts = append(counts, p.HLen(ctx, ci.keys[pendingKey]))
				oldest = append(oldest, p.ZRange(ctx, ci.keys[outboxKey], 0, 0))
			}
		}
		return nil
	})
	if err != nil {
		return b, unavailable(err)
	}
	now, _ := a.clock.now()
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
