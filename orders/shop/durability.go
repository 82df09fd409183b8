package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// Durability is the guarantee that a reservation in Redis must have before the order is accepted. Each is a second copy beside
// the one in the memory of the process that accepted it; docs/durability.md lists what each can lose.
type Durability string

const (
	// DurabilityMemory does not require Redis to write to disk.
	DurabilityMemory Durability = "memory"
	// DurabilityEverysec is an append-only file that is flushed to disk each second, after the order is accepted.
	DurabilityEverysec Durability = "everysec"
	// DurabilityFsync is an append-only file that is flushed to disk before the order is accepted: appendfsync always. ADR 10
	// explains why it is not WAITAOF.
	DurabilityFsync Durability = "fsync"
	// DurabilityReplicated is a replica that has the reservation in memory before the order is accepted.
	DurabilityReplicated Durability = "replicated"
)

func (d Durability) validate() error {
	switch d {
	case "", DurabilityMemory, DurabilityEverysec, DurabilityFsync, DurabilityReplicated:
		return nil
	}
	return fmt.Errorf("orders: durability %q must be memory, everysec, fsync or replicated", d)
}

// CheckDurability returns ErrDurability, wrapped with what to configure, if a Redis server does not support the durability want. It logs
// the durability that the servers provide.
func CheckDurability(ctx context.Context, rdb redis.UniversalClient, want Durability, log *slog.Logger) error {
	servers, err := inspect(ctx, rdb)
	if err != nil {
		return core.Unavailable(err)
	}
	own := DurabilityFsync
	for _, server := range servers {
		if server.unknown != nil {
			log.WarnContext(ctx, "Redis does not say how it writes to disk, so its durability is not checked",
				slog.String("addr", server.addr), slog.Any("error", server.unknown))
		}
		if err := server.fit(want); err != nil {
			return fmt.Errorf("%w %w", orders.ErrDurability, err)
		}
		own = weaker(own, server.own())
	}
	if want != "" {
		own = want
	}
	log.InfoContext(ctx, "durability of reservations in Redis", slog.String("durability", string(own)), slog.Bool("asked_for", want != ""))
	return nil
}

func weaker(a, b Durability) Durability {
	for _, d := range []Durability{DurabilityMemory, DurabilityEverysec} {
		if a == d || b == d {
			return d
		}
	}
	return a
}

// keeping is how one server persists and replicates its data.
type keeping struct {
	addr     string
	unknown  error  // why its configuration is unknown; the next three are empty then
	aof      bool   // there is an append-only file
	fsync    string // when it is flushed: always, everysec, or no (left to the kernel)
	lapses   bool   // it does not flush while a child process rewrites the file
	evicts   string // its eviction policy when memory is full; empty: it refuses writes instead, or does not say
	evicted  int64  // keys that it has evicted
	role     string // master or slave
	replicas int    // replicas online, in sync except for data in transit
}

// own returns the durability that the server provides without WAIT.
func (k *keeping) own() Durability {
	switch {
	case k.aof && k.fsync == "always" && !k.lapses:
		return DurabilityFsync
	case k.aof && k.fsync != "no" && !k.lapses:
		return DurabilityEverysec
	}
	return DurabilityMemory
}

// fit returns an error that states what to configure, if the server does not provide the durability want.
func (k *keeping) fit(want Durability) error {
	wrong := func(has, set string) error {
		return fmt.Errorf("is to be %s, and Redis at %s %s: %s, or ask for less", want, k.addr, has, set)
	}
	switch {
	case want != "" && k.role == "slave":
		return wrong("is a replica", "name its master")
	case k.evicts != "":
		return fmt.Errorf("cannot be guaranteed: Redis at %s drops keys when its memory is full, and with them quotas and orders: set "+
			"maxmemory-policy noeviction there in place of %s",
			k.addr, k.evicts)
	case want == DurabilityReplicated && k.replicas == 0:
		return wrong("has no replica online", "start one that follows it, and set min-replicas-to-write 1, so that nothing is reserved "+
			"without one")
	case want != DurabilityEverysec && want != DurabilityFsync, k.unknown != nil, k.own() == want, k.own() == DurabilityFsync:
		return nil
	case !k.aof:
		return wrong("has appendonly no", "set appendonly yes there")
	case k.lapses:
		return wrong("has no-appendfsync-on-rewrite yes", "set it to no there")
	case want == DurabilityFsync:
		return wrong("has appendfsync "+k.fsync, "set appendfsync always there")
	}
	return wrong("has appendfsync "+k.fsync, "set appendfsync everysec there")
}

// inspect asks every master for its configuration.
func inspect(ctx context.Context, rdb redis.UniversalClient) (all []keeping, err error) {
	var mu sync.Mutex
	err = core.EachMaster(ctx, rdb, func(ctx context.Context, master *redis.Client) error {
		k, err := inspectOne(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, k)
		return err
	})
	return all, err
}

func inspectOne(ctx context.Context, server *redis.Client) (keeping, error) {
	k := keeping{addr: server.Options().Addr}
	if k.addr == "FailoverClient" {
		k.addr = "the address that the sentinels name"
	}
	if err := k.readInfo(ctx, server, "replication", "memory", "stats"); err != nil {
		return k, err
	}
	var refused redis.Error
	config, err := server.ConfigGet(ctx, "*append*").Result()
	switch {
	case errors.As(err, &refused): // managed servers forbid it
		k.unknown = err
		return k, nil
	case err != nil:
		return k, err
	}
	k.aof, k.fsync, k.lapses = config["appendonly"] == "yes", config["appendfsync"], config["no-appendfsync-on-rewrite"] == "yes"
	return k, nil
}

// readInfo reads sections of INFO, which managed servers answer too.
func (k *keeping) readInfo(ctx context.Context, server *redis.Client, sections ...string) error {
	for _, section := range sections { // servers before version 7 take one at a time
		info, err := server.Info(ctx, section).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case name == "role":
				k.role = value
			case isReplica(name) && strings.Contains(value, "state=online"):
				k.replicas++
			case name == "maxmemory_policy" && value != "noeviction":
				k.evicts = value
			case name == "evicted_keys":
				k.evicted, _ = strconv.ParseInt(value, 10, 64)
			}
		}
	}
	return nil
}

const evictionInterval = 5 * time.Second

// watchEviction reports servers that drop keys, or may, until ctx ends. The policy can be changed while the program runs.
func (s *Service) watchEviction(ctx context.Context) error {
	before := make(map[string]int64) // evicted keys, by address
	if s.opts.EphemeralRedis {
		<-ctx.Done()
		return ctx.Err()
	}
	return periodic.Woken(ctx, evictionInterval, nil, func() {
		var mu sync.Mutex
		var details []string
		err := core.EachMaster(ctx, s.core.Base, func(ctx context.Context, master *redis.Client) error {
			k := keeping{addr: master.Options().Addr}
			if err := k.readInfo(ctx, master, "memory", "stats"); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			was, known := before[k.addr]
			before[k.addr] = k.evicted
			if lost := k.evicted - was; known && lost > 0 {
				details = append(details, fmt.Sprintf("Redis has dropped %d keys because its memory is full", lost))
				s.core.Logger.ErrorContext(ctx, "Redis has dropped keys because its memory is full; sales that lost any are rebuilt: "+
					"give it more memory, and set maxmemory-policy noeviction",
					slog.String("addr", k.addr), slog.Int64("keys", lost))
				core.Poke(s.core.CheckNow)
			}
			if k.evicts != "" {
				details = append(details, "Redis drops keys when its memory is full: maxmemory-policy is "+k.evicts)
			}
			return nil
		})
		switch {
		case details != nil:
			s.core.Conditions.Set(orders.Condition{
				Cause:  orders.CauseEviction,
				Detail: strings.Join(slices.Compact(slices.Sorted(slices.Values(details))), "; "), Serves: true,
			})
		case err == nil:
			s.core.Conditions.Clear(orders.CauseEviction)
		}
	})
}

// isReplica reports whether a key of INFO is that of a replica: slave0, slave1, ...
func isReplica(name string) bool {
	number, ok := strings.CutPrefix(name, "slave")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}
