package chaos

import (
	"context"
	"strings"
	"time"
)

// pauseHost pauses a host of a role.
func pauseHost(role string) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		return c.pauseFor(ctx, p, hostOf(role, p), role == "api")
	}
}

func (c *cluster) pauseFor(ctx context.Context, p params, host string, excused bool) error {
	from := time.Now()
	if err := c.hosts.pause(ctx, host); err != nil {
		return err
	}
	c.after(ctx, p, func(ctx context.Context) error {
		err := c.hosts.start(ctx, host)
		c.t.Logf("host: %s was paused for %.1fs", host, time.Since(from).Seconds())
		if excused {
			c.stopped(from)
		}
		return err
	})
	return nil
}

func pauseRedisMaster(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	var master, replica string
	return c.change(ctx, &h.redis, p, func(ctx context.Context) (err error) {
		if master, replica, err = h.pair(ctx); err != nil {
			return err
		}
		return h.pause(ctx, master)
	}, func(ctx context.Context) error {
		role, _ := h.do(ctx, replica, "INFO", "replication")
		c.t.Logf("host: redis master %s was paused for %v; its replica is master: %v", master, p.For, strings.Contains(role, "role:master"))
		c.late.loss(time.Now())
		return h.start(ctx, master)
	})
}

func pausePrimary(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	var primary string
	from := time.Now()
	return c.change(ctx, &h.postgres, p, func(ctx context.Context) (err error) {
		if primary, _, err = c.syncPair(ctx); err != nil {
			return err
		}
		return h.pause(ctx, primary)
	}, func(ctx context.Context) error {
		err := h.start(ctx, primary)
		c.stopped(from)
		return err
	})
}

func killHost(role string) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		host := hostOf(role, p)
		if err := c.hosts.kill(ctx, host); err != nil {
			return err
		}
		c.after(ctx, p, func(ctx context.Context) error { return c.hosts.start(ctx, host) })
		return nil
	}
}

func killRedisMaster(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	var master, replica string
	return c.change(ctx, &h.redis, p, func(ctx context.Context) (err error) {
		if master, replica, err = h.pair(ctx); err != nil {
			return err
		}
		return h.kill(ctx, master)
	}, func(ctx context.Context) error {
		if err := h.awaitMaster(ctx, replica); err != nil {
			return err
		}
		c.late.loss(time.Now())
		return h.start(ctx, master)
	})
}

func killRedisReplica(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	var replica string
	return c.change(ctx, &h.redis, p, func(ctx context.Context) (err error) {
		if _, replica, err = h.pair(ctx); err != nil {
			return err
		}
		return h.kill(ctx, replica)
	}, func(ctx context.Context) error { return h.start(ctx, replica) })
}

// killStandby and loseStandby take the standby away while it is synchronous; it comes back as a standby.
var (
	killStandby = standbyAway(
		func(ctx context.Context, h *hosts, standby string) error { return h.kill(ctx, standby) },
		func(ctx context.Context, h *hosts, standby string) error { return h.start(ctx, standby) },
	)
	loseStandby = standbyAway(
		func(ctx context.Context, h *hosts, standby string) error { return h.loseDisk(ctx, standby, func() {}) },
		func(context.Context, *hosts, string) error { return nil }, // it was started again, empty
	)
)

func standbyAway(take, start func(ctx context.Context, h *hosts, standby string) error) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		h := c.hosts
		var standby string
		from := time.Now()
		return c.change(ctx, &h.postgres, p, func(ctx context.Context) (err error) {
			if _, standby, err = c.syncPair(ctx); err != nil {
				return err
			}
			return take(ctx, h, standby)
		}, func(ctx context.Context) error {
			defer func() { c.stopped(from) }()
			if err := start(ctx, h, standby); err != nil {
				return err
			}
			return h.rejoin(ctx, standby)
		})
	}
}
