package audit

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

func (a *Verifier) Backlog(ctx context.Context) (orders.Backlog, error) {
	items, pending, err := a.sales.Outboxes(ctx, a.sales.Remembered())
	if err != nil || pending == 0 {
		return orders.Backlog{}, err
	}
	b := orders.Backlog{Orders: pending}
	oldest := make([]*redis.StringSliceCmd, len(items))
	if err := a.Pipelined(ctx, len(items), func(p redis.Pipeliner,
		i int,
	) {
		oldest[i] = p.ZRange(ctx, items[i].Keys[core.OutboxKey], 0, 0)
	}); err != nil {
		return orders.Backlog{}, core.Unavailable(err)
	}
	now, _ := a.Clock.Now()
	for _, cmd := range oldest {
		if first := cmd.Val(); len(first) > 0 {
			// The score is the time of a sweeper's last claim. Sweepers claim the oldest orders first, so this one was accepted
			// before the others.
			if id, err := orders.ParseID(first[0]); err == nil {
				b.Oldest = max(b.Oldest, now.Sub(id.Time()))
			}
		}
	}
	return b, nil
}
