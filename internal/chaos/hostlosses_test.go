package chaos

import (
	"context"
	"strings"
	"time"
)

// costly are what installations of hosts lose orders by. They are in no other plan: what they cost is measured.
var costly = []fault{
	{name: "split-brain", needs: clustered, draw: lasting(6*time.Second, 12*time.Second), costs: splitCosts, inject: splitBrain(false)},
	{name: "split-brain-and-api", needs: clustered, draw: lasting(6*time.Second, 12*time.Second), costs: splitCosts, inject: splitBrain(true)},
	{name: "lost-standby", draw: lasting(2*time.Second, 6*time.Second), costs: standbyCosts, inject: loseSynchronously(false)},
	{name: "lost-standby-and-api", draw: lasting(2*time.Second, 6*time.Second), costs: standbyCosts, inject: loseSynchronously(true)},
}

// splitCosts: an order is lost or comes too late, so its key gives another one, or its units are sold to others.
var splitCosts = []string{"I1", "I4", "I7", "I15", "I16", "I18", "rejected"}

// standbyCosts: besides, payments and ends of orders are lost, which buyers have seen.
var standbyCosts = []string{"I1", "I2", "I4", "I7", "I9", "I11", "I14", "I15", "I16", "I18", "rejected"}

// splitBrain cuts the item's master and one API off from all others together. The balancer still sends requests to the API. The
// replica takes over on the side of the majority. With deadly, the API's host dies before the sides meet again, so both copies
// of what its side accepted may be lost.
func splitBrain(deadly bool) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		h, api := c.hosts, hostOf("api", p)
		var master, replica string
		var ofMaster, ofAPI [][]string
		from := time.Now()
		return c.change(ctx, &h.redis, p, func(ctx context.Context) (err error) {
			if master, replica, err = h.pair(ctx); err != nil {
				return err
			}
			for _, other := range h.all("redis", "api", "worker", "postgres") {
				if other != master && other != api {
					ofMaster = append(ofMaster, h.cutRules([]string{other}, both)...)
				}
				if other != api && other != master {
					ofAPI = append(ofAPI, h.cutRules([]string{other}, both)...)
				}
			}
			if err := h.drop(ctx, master, ofMaster); err != nil {
				return err
			}
			return h.drop(ctx, api, ofAPI)
		}, func(ctx context.Context) error {
			err := h.awaitMaster(ctx, replica)
			for _, side := range []string{master, replica} {
				rdb := h.server(side)
				keys, _ := rdb.Keys(ctx, space+":{"+sale+":"+item+"}:*").Result()
				role, _ := rdb.Do(ctx, "ROLE").Slice()
				info, _ := rdb.ClusterInfo(ctx).Result()
				rdb.Close()
				state, _, _ := strings.Cut(info, "\r\n")
				c.t.Logf("redis: %s is %v, %s, %d keys", side, role[:min(1, len(role))], state, len(keys))
			}
			one, _ := h.dropped(ctx, master)
			other, _ := h.dropped(ctx, api)
			c.t.Logf("network: %s and %s were cut off: %d and %d packets dropped", master, api, one, other)
			if deadly {
				if err := h.kill(ctx, api); err != nil {
					return err
				}
			}
			if _, e := h.mend(ctx, master, ofMaster); e != nil {
				return e
			}
			if _, e := h.mend(ctx, api, ofAPI); e != nil {
				return e
			}
			if deadly {
				err = h.start(ctx, api)
			}
			c.stopped(from)
			c.late.loss(time.Now())
			return err
		})
	}
}

// loseSynchronously cuts the standby off, tells the primary to go on alone, and loses the primary: the standby takes over
// without the commits since. With deadly, the APIs that remember these orders die too.
func loseSynchronously(deadly bool) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		h := c.hosts
		var primary, standby string
		var rules [][]string
		return c.change(ctx, &h.postgres, p, func(ctx context.Context) (err error) {
			if primary, standby, err = c.syncPair(ctx); err != nil {
				return err
			}
			rules = h.cutRules([]string{primary}, both)
			if err := h.execute(ctx, primary, goesOnAlone...); err != nil {
				return err
			}
			return h.drop(ctx, standby, rules)
		}, func(ctx context.Context) error {
			orders, _ := h.query(ctx, primary, `SELECT count(*)::text FROM orders`)
			behind, _ := h.query(ctx, standby, `SELECT count(*)::text FROM orders`)
			c.t.Logf("postgres: the primary %s has %s orders, the standby %s", primary, orders, behind)
			if deadly {
				for _, api := range h.all("api") {
					if err := h.kill(ctx, api); err != nil {
						return err
					}
				}
			}
			if err := h.promote(ctx, primary, standby); err != nil {
				return err
			}
			if deadly {
				for _, api := range h.all("api") {
					if err := h.start(ctx, api); err != nil {
						return err
					}
				}
			}
			if _, err := h.mend(ctx, standby, rules); err != nil {
				return err
			}
			if err := h.start(ctx, primary); err != nil {
				return err
			}
			return h.rejoin(ctx, primary)
		})
	}
}
