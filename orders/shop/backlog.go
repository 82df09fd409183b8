package shop

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
)

// outboxes returns the items with orders in their outbox, and how many these are altogether. Beside an error it returns those
// of the servers that answered.
func (w *catalogWatch) outboxes(ctx context.Context) (items []*cachedItem, pending int, err error) {
	all := w.remembered()
	counts := make([]*redis.IntCmd, len(all))
	_ = w.pipelined(ctx, len(all), func(p redis.Pipeliner, i int) { counts[i] = countOutbox(ctx, p, all[i]) })
	for i, ci := range all {
		if failed := counts[i].Err(); redis.HasErrorPrefix(failed, "WRONGTYPE") {
			_ = w.forgotten(ci)
		} else {
			err = cmp.Or(err, failed)
		}
		if n := int(counts[i].Val()); n > 0 {
			items, pending = append(items, ci), pending+n
		}
	}
	return items, pending, unavailable(err)
}

// countOutbox counts the orders in an item's outbox, without its sentinel.
func countOutbox(ctx context.Context, rdb redis.Cmdable, ci *cachedItem) *redis.IntCmd {
	return rdb.ZCount(ctx, ci.keys[outboxKey], "-inf", "1e15") // scores are times in ms; not (+inf, which the embedded server takes for +inf
}

func (a *verifier) Backlog(ctx context.Context) (orders.Backlog, error) {
	items, pending, err := a.sales.outboxes(ctx)
	if err != nil || pending == 0 {
		return orders.Backlog{}, err
	}
	b := orders.Backlog{Orders: pending}
	oldest := make([]*redis.StringSliceCmd, len(items))
	if err := a.pipelined(ctx, len(items), func(p redis.Pipeliner, i int) { oldest[i] = p.ZRange(ctx, items[i].keys[outboxKey], 0, 0) }); err != nil {
		return orders.Backlog{}, unavailable(err)
	}
	now, _ := a.clock.now()
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
