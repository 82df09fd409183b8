// Package core has what all parts of a shop use: the configuration, clients and clocks of a process, names of keys, signals between
// loops, conditions, and errors.
package core

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/redisclient"
)

// Core is what all parts of a service use.
type Core struct {
	Namespace      string
	Timeout        time.Duration // of a decision in Redis
	Logger         *slog.Logger
	Tracer         trace.Tracer // may be nil
	Measures       Measures
	Program        string                // names this program to operators
	EphemeralRedis bool                  // as in shop.Options
	Base           redis.UniversalClient // one command at a time: subscriptions, scans, INFO, recoveries
	Batched        redis.UniversalClient // callers share round trips
	Store          storage.Store
	RunIDs         *redisclient.RunIDWatcher
	Process        string // names this process to the others
	Writer         string // names it in items
	Clock          clock  // Redis'
	Database       clock  // the database's
	// Conditions are those that background work has found; shop.Service.Conditions looks others up.
	Conditions conditions
	Commits    liveness.Pulse               // this process commits orders, or has proved that it could
	Foreign    atomic.Bool                  // the database and Redis do not belong together
	owned      atomic.Pointer[string]       // identity of the database in Redis when they last belonged together
	IDKey      atomic.Pointer[orders.IDKey] // nil before it is loaded
	*signals
}

// Init makes what is not configured, and returns c.
func (c *Core) Init() *Core {
	c.Process, c.Writer, c.signals, c.Measures = uuid.NewString(), rand.Text()[:10], newSignals(), c.Measures.withDefaults()
	c.RunIDs.Notify(c.CheckNow)
	return c
}

// signals wake the loops. Each channel has one reader.
type signals struct {
	Suspects  suspects      // RecoverSales: a sale may have to be recovered
	CheckNow  chan struct{} // watch: the sales have to be read, and compared with Redis
	Asking    chan struct{} // askForCommits: orders of this process may have lost their other copies
	Handing   chan struct{} // handOvers: a sale is being recovered
	Replaced  chan struct{} // listen: Redis is another server than before
	Verifying chan struct{} // VerifyInBackground: a process has verified the sales, or there is a new one
}

func newSignals() *signals {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return &signals{
		Suspects: suspects{sales: make(map[string]int64), Added: signal()}, CheckNow: signal(), Asking: signal(), Handing: signal(),
		Replaced: signal(), Verifying: signal(),
	}
}

// Uncommitted returns the reservations that the database does not have.
func (c *Core) Uncommitted(ctx context.Context, list []orders.Reservation) ([]orders.Reservation, error) {
	var left []orders.Reservation
	for part := range slices.Chunk(list, LoadChunk) {
		ids := make([]orders.ID, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		found, err := c.Store.Statuses(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, r := range part {
			if _, ok := found[r.ID]; !ok {
				left = append(left, r)
			}
		}
	}
	return left, nil
}

// Within returns the result of fn no later than after Options.Timeout, or at ctx's deadline. fn continues when it is late or ctx is
// cancelled: commands that share a round trip ignore contexts, and what Redis did has to be recorded. So fn writes nothing that the caller
// reads but its result.
func Within[T any](ctx context.Context, c *Core, fn func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(c.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	value, err := redisscript.Within(ctx, func() (T, error) { return fn(ctx) })
	return value, Unavailable(err)
}

// ReadClock reads Redis' time.
func (c *Core) ReadClock(ctx context.Context) error {
	sent := time.Now()
	now, err := c.Base.Time(ctx).Result()
	if err == nil {
		c.Clock.Read(now.Add(time.Since(sent) / 2).UnixMilli())
	}
	return Unavailable(err)
}

// Over reports whether Redis has forgotten a sale, by Redis' clock: this process's own may be wrong.
func (c *Core) Over(s *orders.Sale) bool {
	now, known := c.Clock.Now()
	return known && now.After(ForgetAt(s))
}

// Unavailable wraps errors of the Redis client in ErrUnavailable.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrRecovering) || errors.Is(err, orders.ErrUnknownOrder) {
		return err
	}
	return fmt.Errorf("%w: redis: %w", orders.ErrUnavailable, err)
}

// IgnoreCanceled returns err, or nil if it is context.Canceled.
func IgnoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Poke wakes the reader of a channel of capacity one.
func Poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// clock estimates a server's time between replies. The zero value has no reading yet.
type clock struct {
	last atomic.Pointer[reading]
}

type reading struct {
	server time.Time
	at     time.Time // with the monotonic reading, so that a step of the local clock changes nothing
}

func (c *clock) Read(unixMS int64) {
	c.last.Store(&reading{server: time.UnixMilli(unixMS), at: time.Now()})
}

// Offset returns how far the server's clock is ahead of this process's; 0 before the first reading.
func (c *clock) Offset() time.Duration {
	now, known := c.Now()
	if !known {
		return 0
	}
	return now.Sub(time.Now().Round(0)) // Round strips the monotonic reading
}

// Now is the server's time, wrong by at most a round trip. Before the first reading it is the local clock's, which may be wrong
// by days, and known is false.
func (c *clock) Now() (now time.Time, known bool) {
	r := c.last.Load()
	if r == nil {
		return time.Now(), false
	}
	return r.server.Add(time.Since(r.at)), true
}
