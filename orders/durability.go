package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
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

// runReserveScript runs reserve.lua, and returns its reply once the reservations have the copies that Options.Durability requires.
// Orders from before a recovery need none: the caller commits them next.
func (rs *reserver) runReserveScript(ctx context.Context, mode reserveMode, keys []string, args []any) ([]any, error) {
	if rs.replicas == nil || mode != modeNew && mode != modeRepeat {
		return reserveScript.Run(ctx, rs.rdb, keys, args...).Slice()
	}
	args[1] = "kept"
	return rs.replicas.Run(ctx, keys, args)
}

// checkDurability checks that each Redis server supports Options.Durability; otherwise its error says what to configure.
// Without a durability it logs the one that the servers provide.
func (c *core) checkDurability(ctx context.Context) error {
	servers, err := inspect(ctx, c.base)
	if err != nil {
		return unavailable(err)
	}
	own := DurabilityFsync
	for _, server := range servers {
		if server.unknown != nil {
			c.opts.Logger.WarnContext(ctx, "Redis does not say how it writes to disk, so its durability is not checked",
				slog.String("addr", server.addr), slog.Any("error", server.unknown))
		}
		if c.opts.Durability == "" && server.evicts != "" {
			c.opts.Logger.WarnContext(ctx, "Redis drops keys when it is full, and with them quotas and orders: set maxmemory-policy noeviction",
				slog.String("addr", server.addr), slog.String("policy", server.evicts))
		}
		if err := server.fit(c.opts.Durability); err != nil {
			return fmt.Errorf("%w %w", ErrDurability, err)
		}
		own = weaker(own, server.own())
	}
	if c.opts.Durability != "" {
		own = c.opts.Durability
	}
	c.opts.Logger.InfoContext(ctx, "durability of reservations in Redis",
		slog.String("durability", string(own)), slog.Bool("asked_for", c.opts.Durability != ""))
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
	unknown  error  // why its configuration is unknown; the next four are empty then
	aof      bool   // there is an append-only file
	fsync    string // when it is flushed: always, everysec, or no (left to the kernel)
	lapses   bool   // it does not flush while a child process rewrites the file
	evicts   string // its eviction policy when memory is full; empty: it refuses writes instead
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

// fit returns an error that says what to configure, if the server does not provide the durability want.
func (k *keeping) fit(want Durability) error {
	wrong := func(has, set string) error {
		return fmt.Errorf("is to be %s, and Redis at %s %s: %s, or ask for less", want, k.addr, has, set)
	}
	switch {
	case want != "" && k.role == "slave":
		return wrong("is a replica", "name its master")
	case want != "" && k.evicts != "":
		return wrong("drops keys when it is full", "set maxmemory-policy noeviction there in place of "+k.evicts)
	case want == DurabilityReplicated && k.replicas == 0:
		return wrong("has no replica online", "start one that follows it, and set min-replicas-to-write 1, so that nothing is reserved without one")
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
func inspect(ctx context.Context, rdb redis.UniversalClient) ([]keeping, error) {
	var all []keeping
	switch rdb := rdb.(type) {
	case *redis.Client:
		k, err := inspectOne(ctx, rdb)
		return []keeping{k}, err
	case *redis.ClusterClient:
		var mu sync.Mutex
		err := rdb.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { // at the same time
			k, err := inspectOne(ctx, master)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, k)
			return err
		})
		return all, err
	default:
		return nil, fmt.Errorf("orders: durability of a %T cannot be checked", rdb)
	}
}

func inspectOne(ctx context.Context, server *redis.Client) (keeping, error) {
	k := keeping{addr: server.Options().Addr}
	if k.addr == "FailoverClient" {
		k.addr = "the address that the sentinels name"
	}
	info, err := server.Info(ctx, "replication").Result()
	if err != nil {
		return k, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "role":
			k.role = value
		case isReplica(name) && strings.Contains(value, "state=online"):
			k.replicas++
		}
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
	full, err := server.ConfigGet(ctx, "maxmemory*").Result()
	if err != nil {
		return k, err
	}
	if full["maxmemory"] != "0" && full["maxmemory-policy"] != "noeviction" {
		k.evicts = full["maxmemory-policy"]
	}
	k.aof, k.fsync, k.lapses = config["appendonly"] == "yes", config["appendfsync"], config["no-appendfsync-on-rewrite"] == "yes"
	return k, nil
}

// isReplica reports whether a key of INFO is that of a replica: slave0, slave1, ...
func isReplica(name string) bool {
	number, ok := strings.CutPrefix(name, "slave")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}
