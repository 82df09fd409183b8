package chaos

import (
	"context"
	"time"
)

// promoteStandby turns the primary off and promotes the standby; the former primary returns as its standby.
func promoteStandby(ctx context.Context, c *cluster, p params) error {
	return c.failOver(ctx, p, func(ctx context.Context, former string) error { return c.hosts.start(ctx, former) })
}

// losePrimary is promoteStandby, and the former primary returns with an empty disk.
func losePrimary(ctx context.Context, c *cluster, p params) error {
	return c.failOver(ctx, p, func(ctx context.Context, former string) error {
		if err := c.hosts.loseDisk(ctx, former, func() {}); err != nil {
			return err
		}
		return c.hosts.start(ctx, former)
	})
}

func (c *cluster) failOver(ctx context.Context, p params, back func(ctx context.Context, former string) error) error {
	h := c.hosts
	var former, standby string
	return c.change(ctx, &h.postgres, p, func(ctx context.Context) (err error) {
		if former, standby, err = c.syncPair(ctx); err != nil {
			return err
		}
		from := time.Now()
		defer func() { c.stopped(from) }()
		return h.promote(ctx, former, standby)
	}, func(ctx context.Context) error {
		if err := back(ctx, former); err != nil {
			return err
		}
		return h.rejoin(ctx, former)
	})
}

func loseRedisMaster(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	return c.change(ctx, &h.redis, p, func(ctx context.Context) error {
		master, replica, err := h.pairOf(ctx, itemSlot)
		if err != nil {
			return err
		}
		var promoted error
		if err := h.loseDisk(ctx, master.host, func() { promoted = h.awaitMaster(ctx, replica.host) }); err != nil || promoted != nil {
			return err
		}
		c.late.loss(time.Now())
		return h.follow(ctx, master.host, master.id, itemSlot)
	}, c.showRedis)
}

func loseRedisReplica(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	return c.change(ctx, &h.redis, p, func(ctx context.Context) error {
		_, replica, err := h.pairOf(ctx, itemSlot)
		if err != nil {
			return err
		}
		if err := h.loseDisk(ctx, replica.host, func() {}); err != nil {
			return err
		}
		return h.follow(ctx, replica.host, replica.id, itemSlot)
	}, c.showRedis)
}

// showRedis logs the cluster.
func (c *cluster) showRedis(ctx context.Context) error {
	all, err := c.hosts.view(ctx)
	for _, m := range all {
		role := "replica of " + m.master[:min(6, len(m.master))]
		if m.master == "" {
			role = "master"
		}
		c.t.Logf("redis: %s %.6s is %s of slots %v, fails %v", m.host, m.id, role, m.slots, m.fails)
	}
	return err
}

// moveItem moves the item's slot to another master, with a pause in the middle.
func moveItem(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	return c.change(ctx, &h.redis, params{}, func(ctx context.Context) error {
		from, to, err := c.twoMasters(ctx)
		if err != nil {
			return err
		}
		keys, err := h.moveSlot(ctx, itemSlot, from, to, p.For)
		c.t.Logf("redis: slot %d moved from %s to %s with %d keys: %v", itemSlot, from.host, to.host, keys, err)
		c.late.loss(time.Now())
		return err
	}, func(context.Context) error { return nil })
}

// twoMasters returns the item's master and another one.
func (c *cluster) twoMasters(ctx context.Context) (from, to member, err error) {
	if from, _, err = c.hosts.pairOf(ctx, itemSlot); err != nil {
		return member{}, member{}, err
	}
	all, err := c.hosts.view(ctx)
	if err != nil {
		return member{}, member{}, errNothingThere
	}
	for _, m := range all {
		if m.master == "" && m.id != from.id && !m.fails && len(m.slots) > 0 && c.hosts.up(m.host) {
			return from, m, nil
		}
	}
	return member{}, member{}, errNothingThere
}

// growAndShrink adds a master, moves the slots of the item and of the queue to it, and later moves them back and removes it.
func growAndShrink(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	const added = "redis-7"
	moved := []int{itemSlot, slotOf(space + "-accepted-0")}
	owners := make([]member, len(moved))
	var ours member
	return c.change(ctx, &h.redis, p, func(ctx context.Context) error {
		for i, slot := range moved {
			owner, _, err := h.pairOf(ctx, slot)
			if err != nil {
				return err
			}
			owners[i] = owner
		}
		if _, err := h.compose(ctx, "--profile", "grow", "up", "-d", "--no-build", "--no-deps", added); err != nil {
			return err
		}
		if err := h.meet(ctx, added); err != nil {
			return err
		}
		id, err := h.do(ctx, added, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ours = member{host: added, id: id}
		for i, slot := range moved {
			keys, err := h.moveSlot(ctx, slot, owners[i], ours, 0)
			c.t.Logf("redis: slot %d moved from %s to the new master with %d keys: %v", slot, owners[i].host, keys, err)
			if err != nil {
				return err
			}
		}
		c.late.loss(time.Now())
		return c.showRedis(ctx)
	}, func(ctx context.Context) error {
		for i, slot := range moved {
			to, err := h.masterFor(ctx, owners[i])
			if err != nil {
				return err
			}
			keys, err := h.moveSlot(ctx, slot, ours, to, 0)
			c.t.Logf("redis: slot %d moved back to %s with %d keys: %v", slot, to.host, keys, err)
			if err != nil {
				return err
			}
		}
		c.late.loss(time.Now())
		return h.forget(ctx, ours)
	})
}
