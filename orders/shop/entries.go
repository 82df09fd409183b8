package shop

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
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

// withoutSentinel removes the sentinel of a list, or its value in a hash.
func withoutSentinel(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" || s == sentinel })
}

// buyerEntry is a buyer's entry in the hash of buyers: units held and ids of the orders, as remove_from_entry of prelude.lua reads it.
type buyerEntry struct {
	units int
	ids   string
}

// parseBuyerEntry reads an entry. An unreadable number counts as 0.
func parseBuyerEntry(text string) buyerEntry {
	units, ids, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(units)
	return buyerEntry{n, ids}
}
