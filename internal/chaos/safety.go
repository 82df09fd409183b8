package chaos

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// settled is how long after it ran on a frozen API is trusted to have handed over what it remembers.
const settled = 10 * time.Second

// safe tells whether every order that was answered 202 is still somewhere once a copy is taken now. An order has two copies until its
// commit: one in Redis, one in the memory of the API that accepted it.
func (c *cluster) safe(ctx context.Context, copy takes) bool {
	switch copy {
	case anAPI:
		return c.redisHasAll(ctx)
	case redises:
		return c.apisHaveAll(ctx)
	}
	return true
}

// redisHasAll: since Redis last lost memory its sale was rebuilt, with what the APIs remembered.
func (c *cluster) redisHasAll(ctx context.Context) bool {
	if c.lost.IsZero() {
		return true
	}
	for _, api := range c.apis {
		if api.isFrozen() {
			return false
		}
	}
	if c.thawed.After(c.lost) && time.Since(c.thawed) < settled {
		return false
	}
	return c.rebuilt(ctx)
}

// rebuilt tells whether the sale is open, in the Redis that runs now, with everything that was remembered.
func (c *cluster) rebuilt(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var epoch, floor int64
	if c.pool.QueryRow(ctx, `SELECT epoch, epoch_floor FROM sales WHERE sale = $1`, sale).Scan(&epoch, &floor) != nil || epoch != floor {
		return false
	}
	rdb := c.rdb()
	defer rdb.Close()
	it, err := rdb.HGetAll(ctx, itemKey(epoch, "item")).Result()
	if err != nil || it["run"] == "" || it["recovering"] != "" {
		return false
	}
	info, err := rdb.Info(ctx, "server").Result()
	return err == nil && strings.Contains(info, "run_id:"+it["run"])
}

// apisHaveAll: what the APIs that ended since had accepted is committed, and none is about to end.
func (c *cluster) apisHaveAll(ctx context.Context) bool {
	var last time.Time
	for _, api := range c.apis {
		at, armed := api.lastEnd()
		if armed {
			return false
		}
		if at.After(last) {
			last = at
		}
	}
	if last.IsZero() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rdb := c.rdb()
	defer rdb.Close()
	records, err := pendingRecords(ctx, rdb)
	if err != nil {
		return false
	}
	for _, record := range records {
		var r struct {
			At int64 `json:"t"`
		}
		if json.Unmarshal(record, &r) != nil || r.At <= last.UnixMilli() {
			return false
		}
	}
	return true
}
