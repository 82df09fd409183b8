package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
)

// A Finding is one line of Doctor.
type Finding struct {
	Check string `json:"check"`
	State string `json:"state"` // StateOK, StateWarning or StateError
	Text  string `json:"text"`
}

// States of a Finding.
const (
	StateOK      = "ok"
	StateWarning = "warning"
	StateError   = "error"
)

// findings are also the log of the checks: what they log is what they found.
type findings struct {
	check string
	list  []Finding
}

func (*findings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (f *findings) WithAttrs([]slog.Attr) slog.Handler             { return f }
func (f *findings) WithGroup(string) slog.Handler                  { return f }

func (f *findings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	separator := ": "
	r.Attrs(func(a slog.Attr) bool {
		text += separator + a.String()
		separator = ", "
		return true
	})
	state := StateOK
	if r.Level >= slog.LevelWarn {
		state = StateWarning
	}
	f.list = append(f.list, Finding{f.check, state, text})
	return nil
}

// run does a check, whose error is a finding too, and reports whether it had none.
func (f *findings) run(check string, do func() error) bool {
	f.check = check
	found := len(f.list)
	if err := do(); err != nil {
		f.list = append(f.list, Finding{check, StateError, strings.Join(strings.Fields(err.Error()), " ")})
		return false
	}
	if found == len(f.list) {
		f.list = append(f.list, Finding{check, StateOK, "in order"})
	}
	return true
}

// Doctor checks what an installation needs of its servers, as the programs do at their start. It changes nothing: what it writes to test
// permissions is rolled back, or expires within a second.
func Doctor(ctx context.Context, cfg *config.Config) []Finding {
	f := new(findings)
	log := slog.New(f)
	var (
		r       *Redis
		cluster error
	)
	if !f.run("settings", func() error {
		o, err := parseRedis(cfg.Redis, cfg.Queue, cfg.RedisFiles)
		if err != nil {
			return err
		}
		cluster = o.detectClusters(ctx, cfg, slog.New(slog.DiscardHandler), time.Second)
		r, err = o.open(cfg.RedisTimeout)
		return err
	}) {
		return f.list
	}
	defer r.CloseAfter(nil)
	f.check = "postgres"
	pool, err := pgclient.Open(ctx, string(cfg.Database), "tidegate-doctor", cfg.DatabaseConns, log)
	if err != nil {
		f.run("postgres", func() error { return err })
		return f.list
	}
	defer closePool(pool)
	store := postgres.New(pool)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open

	inPostgres := f.run("postgres", func() error { return pool.Ping(ctx) })
	if inPostgres {
		f.run("connections", func() error { logConnections(ctx, log, pool); return nil })
		f.run("standbys", func() error { warnOfStandbys(ctx, log, pool); return nil })
		inPostgres = f.run("schema", func() error { return migrations.CheckPostgres(ctx, db) })
	}
	if inPostgres {
		f.run("commit", func() error { return store.Prove(ctx) })
	}
	inRedis := f.run("redis", func() error { return errors.Join(cluster, r.ping(ctx, cfg.RedisTimeout)) })
	if inRedis {
		f.run("distance", func() error { r.warnOfDistance(ctx, log, cfg.RedisTimeout); return nil })
		f.run("durability", func() error {
			return shop.CheckDurability(ctx, r.Decisions.Unwrap(), shop.Durability(cfg.Durability), log)
		})
		f.run("permissions", func() error { return mayWrite(ctx, r.Decisions, cfg.Namespace+":{doctor}") })
	}
	f.run("queue", func() error { return mayWrite(ctx, r.Queue, "asynq:{"+cfg.Namespace+"-doctor}") })
	if inPostgres && inRedis {
		f.run("versions", func() error { logVersions(ctx, cfg, log, r, pool); return nil })
		f.run("identity", func() error {
			o, err := shop.ReadOwnership(ctx, r.Decisions, store, cfg.Namespace)
			if err != nil {
				return err
			}
			return o.Err()
		})
		f.run("clocks", func() error {
			var database time.Time
			began := time.Now()
			inRedis, err := r.Decisions.Time(ctx).Result()
			if err != nil {
				return err
			}
			if err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&database); err != nil {
				return err
			}
			now := began.Add(time.Since(began) / 2)
			if redis, database := inRedis.Sub(now), database.Sub(now); max(redis.Abs(), database.Abs(), (redis-database).Abs()) > time.Second {
				log.Warn("the clocks differ by more than a second: correct them (NTP)", slog.Duration("redis", redis),
					slog.Duration("postgres", database))
			}
			return nil
		})
	}
	return f.list
}

// mayWrite tries commands of each kind that scripts need, on a key that expires and a channel of the same name.
func mayWrite(ctx context.Context, rdb redis.UniversalClient, key string) error {
	return redisscript.Repeatable("doctor write", `
		redis.call('HSET', KEYS[1], 'a', 1) redis.call('HDEL', KEYS[1], 'a')
		redis.call('SADD', KEYS[1], 'a') redis.call('SREM', KEYS[1], 'a')
		redis.call('ZADD', KEYS[1], 1, 'a') redis.call('ZREM', KEYS[1], 'a')
		redis.call('RPUSH', KEYS[1], 'a') redis.call('LREM', KEYS[1], 0, 'a')
		redis.call('SET', KEYS[1], 1, 'PX', 1000) redis.call('PEXPIRE', KEYS[1], 1000)
		redis.call('PUBLISH', KEYS[1], '')
		return redis.call('DEL', KEYS[1])`).Run(ctx, rdb, []string{key}).Err()
}

// String is a line for people.
func (f Finding) String() string {
	return fmt.Sprintf("%-8s %-12s %s", strings.ToUpper(f.State), f.Check, f.Text)
}
