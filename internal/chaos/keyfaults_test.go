package chaos

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
)

// itemKeys are the keys that an item has in an epoch.
var itemKeys = []string{"item", "returned", "pending", "outbox", "keys", "buyers", "holders", "turns"}

// Kinds of damage besides a key of the wrong type.
const (
	nextMissing = "next-missing" // the field next of the item
	nextText    = "next-text"    // it is not a number
)

// copyRedis makes another Redis a copy of the present state.
func copyRedis(c *cluster) error {
	if c.copied == nil {
		c.copied = c.redis.StartReplica()
	} else {
		c.copied.Follow(c.redis)
	}
	c.copied.Promote()
	return nil
}

// followCopy makes Redis take over the state of the copy, without a restart.
func followCopy(_ context.Context, c *cluster, _ params) error {
	c.redis.Follow(c.copied)
	c.redis.Promote()
	return nil
}

// currentKey returns a key of the crowd's item in the current epoch.
func (c *cluster) currentKey(ctx context.Context, kind string) (string, error) {
	var epoch int64
	err := c.pool.QueryRow(ctx, `SELECT epoch FROM sales WHERE sale = $1`, sale).Scan(&epoch)
	return itemKey(item, epoch, kind), err
}

// loseKey deletes one key of the item.
func loseKey(ctx context.Context, c *cluster, p params) error {
	key, err := c.currentKey(ctx, p.Kind)
	if err != nil {
		return err
	}
	rdb := c.rdb()
	defer rdb.Close()
	n, err := rdb.Del(ctx, key).Result()
	if err == nil && n == 0 {
		err = errNothingThere
	}
	return err
}

// damageKey replaces one key of the item by a string, or damages the number of the last unit.
func damageKey(ctx context.Context, c *cluster, p params) error {
	kind := p.Kind
	if kind == nextMissing || kind == nextText {
		kind = "item"
	}
	key, err := c.currentKey(ctx, kind)
	if err != nil {
		return err
	}
	rdb := c.rdb()
	defer rdb.Close()
	if n, err := rdb.Exists(ctx, key).Result(); err != nil {
		return err
	} else if n == 0 {
		return errNothingThere // it is being rebuilt
	}
	switch p.Kind {
	case nextMissing:
		return rdb.HDel(ctx, key, "next").Err()
	case nextText:
		return rdb.HSet(ctx, key, "next", "many").Err()
	}
	return rdb.Set(ctx, key, "damaged", 0).Err()
}

// evictEvery is the time between two evictions. A limit that holds all the time would evict all keys of the sale at once.
const evictEvery = 200 * time.Millisecond

// evict gives Redis a policy that evicts, and again and again for moments less memory than it uses, until it has evicted a key of the item.
// It counts only if such a key was evicted.
func evict(ctx context.Context, c *cluster, p params) error {
	rdb := c.rdb()
	if err := rdb.ConfigSet(ctx, "maxmemory-policy", p.Kind).Err(); err != nil {
		rdb.Close()
		return err
	}
	until := time.Now().Add(p.For)
	c.losing = until
	evicted := c.evictUntil(ctx, rdb, until)
	c.healing.Go(func() {
		for periodic.Pause(ctx, evictEvery) && c.evictUntil(ctx, rdb, until) {
		}
		c.undo(ctx, rdb, func(ctx context.Context) error { return rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err() })
	})
	return done(evicted)
}

// evictUntil lowers the limit ever more, and removes it at once, until a key of the item is gone, and reports whether one is. Redis evicts
// before it runs the command that removes the limit.
func (c *cluster) evictUntil(ctx context.Context, rdb redis.UniversalClient, until time.Time) bool {
	var keys []string
	for _, kind := range itemKeys {
		key, err := c.currentKey(ctx, kind)
		if err != nil {
			return false
		}
		keys = append(keys, key)
	}
	had := int64(0)
	for less := int64(1 << 10); time.Now().Before(until); less *= 2 {
		has, err := rdb.Exists(ctx, keys...).Result()
		if err != nil || has < had {
			return err == nil
		}
		had = has
		used, err := infoOf(ctx, rdb, "memory", "used_memory")
		if err != nil {
			return false
		}
		if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ConfigSet(ctx, "maxmemory", strconv.FormatInt(max(used-less, 1), 10))
			p.ConfigSet(ctx, "maxmemory", "0")
			return nil
		}); err != nil {
			return false
		}
	}
	return false
}

// forbid takes one command from the user of the programs, except for Asynq's keys: Asynq's own scripts have no guard, and leave half of
// what they began.
func forbid(ctx context.Context, c *cluster, p params) error {
	rdb := c.rdb()
	c.healing.Go(func() {
		periodic.Pause(ctx, p.For)
		c.undo(ctx, rdb, func(ctx context.Context) error {
			return rdb.ACLSetUser(ctx, "default", "clearselectors", "+@all").Err()
		})
	})
	return rdb.ACLSetUser(ctx, "default", "-"+p.Kind, "(+"+p.Kind+" ~asynq:*)").Err()
}

// undo undoes a change of a Redis server, and closes the client. If the server is down for long, its next start undoes the change too.
func (c *cluster) undo(ctx context.Context, rdb redis.UniversalClient, undo func(context.Context) error) {
	defer rdb.Close()
	for range 100 {
		if undo(ctx) == nil || !periodic.Pause(ctx, 100*time.Millisecond) {
			return
		}
	}
}

// infoOf returns a number of INFO.
func infoOf(ctx context.Context, rdb redis.UniversalClient, section, name string) (int64, error) {
	info, err := rdb.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + name + `:(\d+)\r?$`).FindStringSubmatch(info)
	if found == nil {
		return 0, fmt.Errorf("INFO has no %s", name)
	}
	return strconv.ParseInt(found[1], 10, 64)
}
