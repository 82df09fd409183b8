package catalog

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// Outboxes returns those of some items that have orders in their outbox, and how many these are altogether. Beside an error it returns
// those of the servers that answered.
func (w *Watch) Outboxes(ctx context.Context, all []*Item) (items []*Item, pending int, err error) {
	counts := make([]*redis.IntCmd, len(all))
	_ = w.Pipelined(ctx, len(all), func(p redis.Pipeliner, i int) { counts[i] = CountOutbox(ctx, p, all[i]) })
	for i, ci := range all {
		if failed := counts[i].Err(); redis.HasErrorPrefix(failed, "WRONGTYPE") {
			_ = w.Forgotten(ci)
		} else {
			err = cmp.Or(err, failed)
		}
		if n := int(counts[i].Val()); n > 0 {
			items, pending = append(items, ci), pending+n
		}
	}
	return items, pending, core.Unavailable(err)
}

// CountOutbox counts the orders in an item's outbox, without its sentinel.
func CountOutbox(ctx context.Context, rdb redis.Cmdable, ci *Item) *redis.IntCmd {
	// scores are times in ms; not (+inf, which the embedded server takes for +inf
	return rdb.ZCount(ctx, ci.Keys[core.OutboxKey], "-inf", "1e15")
}

// WithoutSentinel removes the sentinel of a list, or its value in a hash.
func WithoutSentinel(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" || s == core.Sentinel })
}

// BuyerEntry is a buyer's entry in the hash of buyers: units held and ids of the orders, as remove_from_entry of prelude.lua reads it.
type BuyerEntry struct {
	Units int
	IDs   string
}

// ParseBuyerEntry reads an entry. An unreadable number counts as 0.
func ParseBuyerEntry(text string) BuyerEntry {
	units, ids, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(units)
	return BuyerEntry{n, ids}
}
