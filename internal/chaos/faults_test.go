package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
)

// faults is the table of the faults of one machine. Plans draw from it, so a new fault only needs an entry here. Those of several hosts are in
// hostfaults_test.go, and those that lose orders in hostlosses_test.go.
var faults = []fault{
	// Processes.
	{name: "kill-api", takes: anAPI, draw: away, inject: func(_ context.Context, c *cluster, p params) error {
		return done(c.api(p).kill(p.For))
	}},
	{name: "kill-worker", draw: away, inject: func(_ context.Context, c *cluster, p params) error {
		return done(c.worker(p).kill(p.For))
	}},
	{name: "api-at-after_reserve", takes: anAPI, draw: at("after_reserve", 150), inject: restartAPI},
	{name: "api-at-before_answer", takes: anAPI, draw: at("before_answer", 150), inject: restartAPI},
	{name: "worker-at-between_statements", draw: at("between_statements", 40), inject: restartWorker},
	{name: "worker-at-after_commit", draw: at("after_commit", 40), inject: restartWorker},
	{name: "worker-at-before_ack", draw: at("before_ack", 150), inject: restartWorker},
	{name: "api-clock-off", clocks: true, takes: anAPI, draw: offBy(time.Hour), inject: restartAPI},
	{name: "worker-clock-off", clocks: true, draw: offBy(time.Hour), inject: restartWorker},
	{name: "freeze-worker", aside: true, draw: lasting(45*time.Second, 45*time.Second), inject: func(_ context.Context, c *cluster, p params) error {
		return done(c.worker(p).freeze(p.For))
	}, heal: func(c *cluster, p params) { c.worker(p).thaw() }},
	{name: "freeze-all-workers", draw: lasting(500*time.Millisecond, 2*time.Second), inject: freezeWorkers, heal: thawWorkers},
	{name: "freeze-api", draw: lasting(500*time.Millisecond, 5*time.Second), inject: freezeAPI, heal: thawAPI},
	{name: "clock-days", clocks: true, aside: true, kinds: clockKinds, draw: lasting(3*time.Second, 10*time.Second), inject: moveClock, heal: func(c *cluster, p params) {
		if err := c.process(p).moveClock(0); err != nil {
			c.bought.fail(err)
		}
	}},
	{name: "blocked-log", aside: true, takes: redises, kinds: programKinds, draw: lasting(14*time.Second, 18*time.Second), inject: blockLog, heal: func(c *cluster, p params) {
		c.process(p).log.unblock()
	}},
	{name: "foreign-database", aside: true, kinds: []string{foreignEmpty, foreignClone}, draw: lasting(3*time.Second, 8*time.Second), inject: startForeign},

	// Redis keeps its memory. With everysec, writes that wait for a busy disk are in the process only, and are lost with it.
	{name: "kill-redis-everysec", needs: redisAlone | everysec, takes: redises, inject: func(_ context.Context, c *cluster, _ params) error {
		c.redis.Restart()
		return nil
	}},
	{name: "kill-redis-always", needs: redisAlone | always, inject: func(_ context.Context, c *cluster, _ params) error {
		c.redis.Restart()
		return nil
	}},
	{name: "cut-redis", needs: redisProxied, inject: func(_ context.Context, c *cluster, _ params) error {
		return done(c.redisProxy.Cut() > 0)
	}},
	{
		name: "drop-redis-replies", needs: redisProxied, draw: lasting(100*time.Millisecond, 1500*time.Millisecond),
		inject: func(_ context.Context, c *cluster, _ params) error { c.redisProxy.Deafen(); return nil },
		heal:   func(c *cluster, _ params) { c.redisProxy.Hear() },
	},

	// Redis loses its memory.
	{name: "flushall", takes: redises, inject: flush},
	{name: "flush-decisions", takes: redises, inject: func(ctx context.Context, c *cluster, _ params) error { return c.forget(ctx, ofDecisions) }},
	{name: "flushall-frozen-api-short", takes: redises, draw: lasting(200*time.Millisecond, 800*time.Millisecond), inject: flushFrozen, heal: thawAPI},
	{name: "flushall-frozen-api-long", takes: redises, draw: lasting(15*time.Second, 20*time.Second), inject: flushFrozen, heal: thawAPI},
	{name: "freeze-leader", takes: redises, kinds: leaderSteps, draw: lasting(time.Second, 8*time.Second), inject: freezeLeader},
	{name: "leader-loses-lock", takes: redises, kinds: leaderSteps, draw: func(r *rand.Rand) params {
		p := lasting(time.Second, 8*time.Second)(r)
		if r.IntN(2) == 0 { // it resumes in the middle of the next leader's work, rather than after it
			p.For = between(r, 100*time.Millisecond, time.Second)
		}
		return p
	}, inject: leaderLosesLock},
	{name: "put-sale-in-recovery", takes: redises, kinds: leaderSteps, draw: lasting(time.Second, 8*time.Second), inject: putSaleInRecovery},
	{name: "redis-loses-last-second", needs: redisAlone | everysec, takes: redises, draw: before(time.Second, time.Second), prepare: func(c *cluster) error {
		c.written = c.redis.Written()
		return nil
	}, inject: func(_ context.Context, c *cluster, _ params) error {
		c.redis.Kill()
		c.redis.Truncate(c.written)
		c.redis.Restart()
		return nil
	}},
	{name: "redis-restores-snapshot", needs: redisAlone, takes: redises, draw: before(1500*time.Millisecond, 4*time.Second), prepare: func(c *cluster) error {
		c.snapshot = c.redis.Snapshot()
		return nil
	}, inject: func(_ context.Context, c *cluster, _ params) error {
		c.redis.RestartFrom(c.snapshot)
		return nil
	}},
	{name: "redis-starts-empty", needs: redisAlone, takes: redises, inject: func(_ context.Context, c *cluster, _ params) error {
		c.redis.RestartEmpty()
		return nil
	}},
	{name: "failover", needs: sentinels, takes: redises, draw: before(100*time.Millisecond, time.Second), inject: func(_ context.Context, c *cluster, p params) error {
		c.sentinel.FailOver(p.Before)
		return nil
	}},

	// Redis keeps its process, and loses a part of its memory.
	{name: "stale-copy", needs: redisAlone, takes: redises, draw: before(500*time.Millisecond, 4*time.Second), prepare: copyRedis, inject: followCopy},
	{name: "lost-key", takes: redises, kinds: itemKeys, inject: loseKey},
	{name: "damaged-key", takes: redises, kinds: slices.Concat(itemKeys, []string{nextMissing, nextText}), inject: damageKey},
	{name: "evict", takes: redises, kinds: []string{"volatile-lru", "volatile-random", "allkeys-random"}, draw: lasting(time.Second, 3*time.Second), inject: evict},
	{name: "script-error", kinds: []string{"hset", "hdel", "sadd", "srem", "zadd", "zrem", "rpush"}, draw: lasting(time.Second, 7*time.Second), inject: forbid},

	// Postgres.
	{name: "kill-postgres", needs: postgresOwn, inject: func(_ context.Context, c *cluster, _ params) error {
		c.postgres.Restart()
		return nil
	}},
	{name: "cut-postgres", needs: postgresProxied, inject: func(_ context.Context, c *cluster, _ params) error {
		return done(c.postgresProxy.Cut() > 0)
	}},
	{
		name: "drop-postgres-replies", needs: postgresProxied, draw: lasting(200*time.Millisecond, 3*time.Second),
		inject: func(_ context.Context, c *cluster, _ params) error { c.postgresProxy.Deafen(); return nil },
		heal:   func(c *cluster, _ params) { c.postgresProxy.Hear() },
	},
	{
		name: "postgres-away-long", needs: postgresProxied, takes: redises, draw: func(r *rand.Rand) params {
			return params{Before: between(r, 500*time.Millisecond, 8*time.Second), For: between(r, 20*time.Second, 32*time.Second)}
		},
		prepare: func(c *cluster) error { c.postgresProxy.Refuse(); return nil },
		inject:  flush,
		heal:    func(c *cluster, _ params) { c.postgresProxy.Admit() },
	},
	{
		name: "postgres-clock-jumps", needs: postgresOwn | postgresClock, draw: func(r *rand.Rand) params {
			p := offBy(20 * time.Second)(r)
			return params{Clock: p.Clock, For: between(r, time.Second, 10*time.Second)}
		},
		inject: func(_ context.Context, c *cluster, p params) error { c.postgres.SetClock(p.Clock); return nil },
		heal:   func(c *cluster, _ params) { c.postgres.SetClock(0) },
	},
	{name: "hold-commits", draw: lasting(500*time.Millisecond, 3*time.Second), inject: holdCommits},

	// The queue.
	{name: "flush-queue", inject: func(ctx context.Context, c *cluster, _ params) error { return c.forget(ctx, ofQueues) }},
	{name: "duplicate-tasks", inject: func(ctx context.Context, c *cluster, _ params) error { return c.repeatTasks(ctx, 0) }},
	{name: "delayed-tasks", draw: lasting(time.Second, 6*time.Second), inject: func(ctx context.Context, c *cluster, p params) error {
		return c.repeatTasks(ctx, p.For)
	}},
}

// double destroys both copies of uncommitted orders at once. Workers are frozen first, so that there are some. It is in no
// other plan. The orders are lost, and their keys give other ones.
var double = fault{name: "double", costs: []string{"I1", "I7"}, draw: away, inject: func(ctx context.Context, c *cluster, p params) error {
	if err := freezeWorkers(ctx, c, params{For: time.Second}); err != nil {
		return err
	}
	periodic.Pause(ctx, time.Second)
	if !c.api(p).kill(p.For) {
		return errNothingThere
	}
	return flush(ctx, c, p)
}, heal: thawWorkers}

// errNothingThere is returned by a fault that found nothing to break, for instance a process that is already dead.
var errNothingThere = errors.New("nothing there to break")

func done(is bool) error {
	if !is {
		return errNothingThere
	}
	return nil
}

func (c *cluster) api(p params) *node    { return c.apis[p.Target-1] }
func (c *cluster) worker(p params) *node { return c.workers[p.Target-1] }

// away draws a process to kill and how long it stays down.
func away(r *rand.Rand) params {
	return params{Target: one(r), For: between(r, restartAfter, 2*time.Second)}
}

// at draws a process that dies at a failpoint.
func at(failpoint string, hits int) func(*rand.Rand) params {
	return func(r *rand.Rand) params { return params{Target: one(r), Failpoint: failpoint, Hit: 1 + r.IntN(hits)} }
}

// offBy draws a process whose clock is wrong from then on, also while everything drains: otherwise tasks that Asynq postponed
// by that clock would only be due in an hour.
func offBy(d time.Duration) func(*rand.Rand) params {
	return func(r *rand.Rand) params { return params{Target: one(r), Clock: d * time.Duration(2*r.IntN(2)-1)} }
}

// lasting draws a target and how long the fault lasts.
func lasting(from, to time.Duration) func(*rand.Rand) params {
	return func(r *rand.Rand) params { return params{Target: one(r), For: between(r, from, to)} }
}

// before draws how far back the restored state is.
func before(from, to time.Duration) func(*rand.Rand) params {
	return func(r *rand.Rand) params { return params{Before: between(r, from, to)} }
}

// restartAPI stops an API gracefully, as a deployment would, and starts one that dies at a failpoint or has a wrong clock.
func restartAPI(ctx context.Context, c *cluster, p params) error {
	c.clocksWrong = c.clocksWrong || p.Clock != 0
	began, api := time.Now(), c.api(p)
	if !api.restart(p.failpoint(), p.Clock) {
		return errNothingThere
	}
	c.healing.Go(func() {
		api.ended(ctx)
		c.openings.effect(began, time.Now())
	})
	return nil
}

func restartWorker(_ context.Context, c *cluster, p params) error {
	c.clocksWrong = c.clocksWrong || p.Clock != 0
	return done(c.worker(p).restart(p.failpoint(), p.Clock))
}

func freezeWorkers(_ context.Context, c *cluster, p params) error {
	frozen := false
	for _, w := range c.workers {
		frozen = w.freeze(p.For) || frozen
	}
	return done(frozen)
}

func thawWorkers(c *cluster, _ params) {
	for _, w := range c.workers {
		w.thaw()
	}
}

func freezeAPI(_ context.Context, c *cluster, p params) error {
	now := time.Now()
	if !c.api(p).freeze(p.For) {
		return errNothingThere
	}
	c.late.stop(judge.Stop{API: p.Target - 1, From: now, Until: now.Add(p.For)})
	return nil
}

func thawAPI(c *cluster, p params) { c.api(p).thaw() }

func flush(ctx context.Context, c *cluster, _ params) error {
	rdb := c.rdb()
	defer rdb.Close()
	return rdb.FlushAll(ctx).Err()
}

// flushFrozen flushes Redis while an API is frozen and cannot notice it.
func flushFrozen(ctx context.Context, c *cluster, p params) error {
	if err := freezeAPI(ctx, c, p); err != nil {
		return err
	}
	return flush(ctx, c, p)
}

// freezeLeader flushes Redis, and stops the process that leads the recovery.
func freezeLeader(ctx context.Context, c *cluster, p params) error {
	return c.flushedLeader(ctx, "freeze-leader", p, "freeze", func(pid int) {
		from := time.Now()
		for _, n := range c.nodes() {
			if !n.halt(pid, p.For) {
				continue
			}
			c.late.loss(from) // the sale is being rebuilt during the stop
			periodic.Pause(ctx, p.For)
			n.thaw()
			if api := slices.Index(c.apis, n); api >= 0 {
				c.late.stop(judge.Stop{API: api, From: from, Until: time.Now()})
			}
		}
	})
}

// leaderLosesLock stops the goroutine that leads a recovery, while its process goes on, and ends the session of its lock, so
// that another process leads before the goroutine resumes.
func leaderLosesLock(ctx context.Context, c *cluster, p params) error {
	return c.flushedLeader(ctx, "leader-loses-lock", p, "stall "+p.For.String(), func(pid int) {
		if pid == 0 {
			return
		}
		var ended int
		err := c.pool.QueryRow(ctx, `
			SELECT count(pg_terminate_backend(pid)) FROM pg_locks
			WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&ended)
		c.t.Logf("leader-loses-lock: %d sessions ended, %v", ended, err)
	})
}

// putSaleInRecovery puts the sale with more stock and a new item while the leader of a recovery is stopped.
func putSaleInRecovery(ctx context.Context, c *cluster, p params) error {
	return c.flushedLeader(ctx, "put-sale-in-recovery", p, "stall "+p.For.String(), func(int) { c.putSale(ctx, p) })
}

// holdCommits delays every commit, as a stalled disk would.
func holdCommits(ctx context.Context, c *cluster, p params) error {
	c.healing.Go(func() {
		tx, err := c.pool.Begin(ctx)
		if err != nil {
			return // Postgres is down, and nothing commits anyway
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '5s'; LOCK TABLE order_units IN SHARE MODE`); err == nil {
			periodic.Pause(ctx, p.For)
		}
		_ = tx.Rollback(ctx) // if the connection is gone, there is nothing to undo
	})
	return nil
}
