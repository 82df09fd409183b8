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

// slack is by how much Redis' memory exceeds its limit when it begins to evict.
const slack = 50 << 10 // bytes

// evict gives Redis less memory than it uses and a policy that evicts. It counts only if keys were evicted.
func evict(ctx context.Context, c *cluster, p params) error {
	rdb := c.rdb()
	used, err := infoOf(ctx, rdb, "memory", "used_memory")
	if err != nil {
		return err
	}
	before, err := infoOf(ctx, rdb, "stats", "evicted_keys")
	if err != nil {
		return err
	}
	c.losing = time.Now().Add(p.For)
	c.undone(ctx, p, rdb, func(ctx context.Context) error {
		if after, err := infoOf(ctx, rdb, "stats", "evicted_keys"); err == nil {
			c.t.Logf("evict: %s evicted %d keys", p.Kind, after-before)
		}
		if err := rdb.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
			return err
		}
		return rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err()
	})
	if err := rdb.ConfigSet(ctx, "maxmemory-policy", p.Kind).Err(); err != nil {
		return err
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", strconv.FormatInt(used-slack, 10)).Err(); err != nil {
		return err
	}
	for until := time.Now().Add(p.For); time.Now().Before(until); periodic.Pause(ctx, 20*time.Millisecond) {
		if after, err := infoOf(ctx, rdb, "stats", "evicted_keys"); err == nil && after > before {
			return nil
		}
	}
	return errNothingThere
}

// forbid takes one command from the user of the programs.
func forbid(ctx context.Context, c *cluster, p params) error {
	c.forbidden = true
	rdb := c.rdb()
	c.undone(ctx, p, rdb, func(ctx context.Context) error { return rdb.ACLSetUser(ctx, "default", "+@all").Err() })
	return rdb.ACLSetUser(ctx, "default", "-"+p.Kind).Err()
}

// undone undoes a change of a Redis server when its time is over, and closes the client. If the server is down for long, its next start
// undoes the change too.
func (c *cluster) undone(ctx context.Context, p params, rdb redis.UniversalClient, undo func(context.Context) error) {
	c.healing.Go(func() {
		defer rdb.Close()
		periodic.Pause(ctx, p.For)
		for range 100 {
			if undo(ctx) == nil || !periodic.Pause(ctx, 100*time.Millisecond) {
				return
			}
		}
	})
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
