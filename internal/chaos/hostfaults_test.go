package chaos

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
)

// hostFaults is the table of all faults of several hosts.
var hostFaults = []fault{
	// The network.
	{name: "cut-api-from-redis", draw: lasting(time.Second, 10*time.Second), inject: cutAPI(both, "redis")},
	{name: "cut-api-from-postgres", draw: lasting(time.Second, 10*time.Second), inject: cutAPI(both, "postgres")},
	{name: "cut-api-from-both", draw: lasting(time.Second, 10*time.Second), inject: cutAPI(both, "redis", "postgres")},
	{name: "cut-worker-from-both", draw: lasting(time.Second, 10*time.Second), inject: cutWorker},
	{name: "no-answers-from-redis", draw: lasting(time.Second, 8*time.Second), inject: cutAPI(incoming, "redis")},
	{name: "no-answers-from-postgres", draw: lasting(time.Second, 8*time.Second), inject: cutAPI(incoming, "postgres")},
	{name: "cut-standby", draw: lasting(time.Second, 8*time.Second), inject: cutStandby},
	{name: "cut-redis-master", takes: redises, draw: lasting(6*time.Second, 12*time.Second), inject: cutRedisMaster},
	{name: "lossy-network", draw: lasting(2*time.Second, 10*time.Second), inject: losePackets},
	{name: "slow-network", draw: lasting(2*time.Second, 10*time.Second), inject: delayPackets},

	// Hosts that stand still.
	{name: "pause-api", draw: lasting(500*time.Millisecond, 8*time.Second), inject: pauseHost("api")},
	{name: "pause-worker", draw: lasting(time.Second, 15*time.Second), inject: pauseHost("worker")},
	{name: "pause-redis-master", takes: redises, draw: lasting(300*time.Millisecond, 8*time.Second), inject: pauseRedisMaster},
	{name: "pause-primary", draw: lasting(500*time.Millisecond, 8*time.Second), inject: pausePrimary},

	// Hosts that go off, and come back with their disk.
	{name: "kill-api", takes: anAPI, draw: lasting(500*time.Millisecond, 5*time.Second), inject: killHost("api")},
	{name: "kill-worker", draw: lasting(500*time.Millisecond, 5*time.Second), inject: killHost("worker")},
	{name: "kill-redis-master", takes: redises, draw: lasting(6*time.Second, 12*time.Second), inject: killRedisMaster},
	{name: "kill-redis-replica", draw: lasting(2*time.Second, 8*time.Second), inject: killRedisReplica},
	{name: "kill-standby", draw: lasting(time.Second, 6*time.Second), inject: killStandby},
	{name: "promote-standby", draw: lasting(2*time.Second, 8*time.Second), inject: promoteStandby},

	// Hosts that come back empty.
	{name: "lose-redis-master-disk", needs: clustered, takes: redises, inject: loseRedisMaster},
	{name: "lose-redis-replica-disk", needs: clustered, inject: loseRedisReplica},
	{name: "lose-standby-disk", inject: loseStandby},
	{name: "lose-primary-disk", draw: lasting(2*time.Second, 6*time.Second), inject: losePrimary},

	// The cluster changes.
	{name: "move-slot", needs: clustered, draw: lasting(0, time.Second), inject: moveItem},
	{name: "add-and-remove-master", needs: clustered, draw: lasting(3*time.Second, 8*time.Second), inject: growAndShrink},
}

// after heals a fault when its time is over.
func (c *cluster) after(ctx context.Context, p params, heal func(ctx context.Context) error) {
	c.healing.Go(func() {
		periodic.Pause(ctx, p.For)
		if err := heal(ctx); err != nil && ctx.Err() == nil {
			c.bought.fail(err)
		}
	})
}

func hostOf(role string, p params) string { return role + "-" + string(rune('0'+p.Target)) }

// stopped excuses what a recovery may have rejected because an API was away. Behind the balancer nobody sees which one.
func (c *cluster) stopped(from time.Time) {
	c.late.stop(judge.Stop{API: 0, From: from, Until: time.Now()})
}

// cutOff cuts one host off from others until the fault is over.
func (c *cluster) cutOff(ctx context.Context, p params, host string, others []string, dir direction, mended func(from time.Time)) error {
	from, rules := time.Now(), c.hosts.cutRules(others, dir)
	if err := c.hosts.drop(ctx, host, rules); err != nil {
		return err
	}
	c.after(ctx, p, func(ctx context.Context) error {
		dropped, err := c.hosts.mend(ctx, host, rules)
		c.t.Logf("network: %s was cut off from %s for %.1fs: %d packets dropped", host, strings.Join(others, " "), time.Since(from).Seconds(), dropped)
		if mended != nil {
			mended(from)
		}
		return err
	})
	return nil
}

func cutAPI(dir direction, from ...string) func(context.Context, *cluster, params) error {
	return func(ctx context.Context, c *cluster, p params) error {
		return c.cutOff(ctx, p, hostOf("api", p), c.hosts.all(append(from, "sentinel")...), dir, c.stopped)
	}
}

func cutWorker(ctx context.Context, c *cluster, p params) error {
	return c.cutOff(ctx, p, hostOf("worker", p), c.hosts.all("redis", "postgres", "sentinel"), both, nil)
}

// change injects a fault that changes the roles of servers, if no other one does, and heals it when its time is over. roles is
// held until then.
func (c *cluster) change(ctx context.Context, roles *sync.Mutex, p params, inject, heal func(ctx context.Context) error) error {
	if !roles.TryLock() {
		return errNothingThere
	}
	if err := inject(ctx); err != nil {
		roles.Unlock()
		return err
	}
	c.after(ctx, p, func(ctx context.Context) error {
		defer roles.Unlock()
		return heal(ctx)
	})
	return nil
}

func cutStandby(ctx context.Context, c *cluster, p params) error {
	primary, standby, err := c.syncPair(ctx)
	if err != nil {
		return err
	}
	return c.cutOff(ctx, p, primary, []string{standby}, both, c.stopped)
}

// syncPair returns primary and standby, if commits wait for the standby now.
func (c *cluster) syncPair(ctx context.Context) (primary, standby string, err error) {
	if primary, standby, err = c.hosts.primary(ctx); err != nil {
		return "", "", errNothingThere
	}
	seen, err := c.hosts.replication(ctx, primary)
	if err != nil || seen != standby+" streaming sync" || !c.hosts.up(primary, standby) {
		return "", "", errNothingThere
	}
	return primary, standby, nil
}

// cutRedisMaster cuts the item's master off from everything. Its replica takes over, and it returns as a replica.
func cutRedisMaster(ctx context.Context, c *cluster, p params) error {
	h := c.hosts
	var master, replica string
	var rules [][]string
	return c.change(ctx, &h.redis, p, func(ctx context.Context) (err error) {
		if master, replica, err = h.pair(ctx); err != nil {
			return err
		}
		rules = h.cutRules(h.all("redis", "sentinel", "api", "worker", "postgres"), both)
		return h.drop(ctx, master, rules)
	}, func(ctx context.Context) error {
		err := h.awaitMaster(ctx, replica)
		dropped, _ := h.mend(ctx, master, rules)
		c.t.Logf("network: redis master %s was cut off, %d packets dropped", master, dropped)
		c.late.loss(time.Now())
		return err
	})
}

func losePackets(ctx context.Context, c *cluster, p params) error {
	h, host := c.hosts, c.anyHost(p)
	rules := lossRules(0.05)
	if err := h.drop(ctx, host, rules); err != nil {
		return err
	}
	c.after(ctx, p, func(ctx context.Context) error {
		dropped, err := h.mend(ctx, host, rules)
		c.t.Logf("network: %s lost %d packets", host, dropped)
		return err
	})
	return nil
}

func delayPackets(ctx context.Context, c *cluster, p params) error {
	h, host := c.hosts, c.anyHost(p)
	how, err := h.slow(ctx, host, 40*time.Millisecond)
	if err != nil {
		return err
	}
	c.after(ctx, p, func(ctx context.Context) error {
		seen, err := h.fast(ctx, host)
		c.t.Logf("network: %s had %s: %s", host, how, strings.Join(strings.Fields(seen), " "))
		return err
	})
	return nil
}

// anyHost is a host of any role, as the parameters choose.
func (c *cluster) anyHost(p params) string {
	names := c.hosts.all("api", "worker", "redis", "postgres")
	return names[int(p.For/time.Millisecond)%len(names)]
}

// newHostPlan draws a plan of two to four faults. Consecutive seeds begin with consecutive faults of the table.
func newHostPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0x686f737473))
	lead := &hostFaults[seed%uint64(len(hostFaults))]
	chosen, want := []*fault{lead}, lead.needs
	if lead.needs&clustered == 0 && r.IntN(4) == 0 {
		want |= sentinels
	}
	for range 1 + r.IntN(3) {
		f := &hostFaults[r.IntN(len(hostFaults))]
		if all, ok := want.with(f.needs); ok {
			want, chosen = all, append(chosen, f)
		}
	}
	p := exactly(seed, r, chosen...)
	p.needs = want
	for i := range p.Steps {
		p.Steps[i].At *= time.Duration(hostWave / wave)
	}
	p.pair(r)
	p.sort()
	return p
}
