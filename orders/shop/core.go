package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/redisclient"
)

// core is what all parts of a service use.
type core struct {
	namespace      string
	timeout        time.Duration // of a decision in Redis
	logger         *slog.Logger
	tracer         trace.Tracer // may be nil
	measures       measures
	program        string                // names this program to operators
	ephemeralRedis bool                  // as in shop.Options
	base           redis.UniversalClient // one command at a time: subscriptions, scans, INFO, recoveries
	rdb            redis.UniversalClient // callers share round trips
	store          storage.Store
	runIDs         *redisclient.RunIDWatcher
	process        string // names this process to the others
	writer         string // names it in items
	clock          clock  // Redis'
	database       clock  // the database's
	// conditions that background work has found; condition.go has those that are looked up
	conditions conditions
	commits    liveness.Pulse               // this process commits orders, or has proved that it could
	foreign    atomic.Bool                  // the database and Redis do not belong together
	owned      atomic.Pointer[string]       // identity of the database in Redis when they last belonged together
	idKey      atomic.Pointer[orders.IDKey] // nil before it is loaded
	*signals
}

// signals wake the loops. Each channel has one reader.
type signals struct {
	suspects  suspects      // recoverSales: a sale may have to be recovered
	checkNow  chan struct{} // watch: the sales have to be read, and compared with Redis
	asking    chan struct{} // askForCommits: orders of this process may have lost their other copies
	handing   chan struct{} // handOvers: a sale is being recovered
	replaced  chan struct{} // listen: Redis is another server than before
	arrived   chan struct{} // the worker's poller: a task was enqueued after a while without
	verifying chan struct{} // VerifyInBackground: a process has verified the sales, or there is a new one
}

func newSignals() *signals {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return &signals{
		suspects: suspects{sales: make(map[string]int64), added: signal()}, checkNow: signal(), asking: signal(), handing: signal(), replaced: signal(),
		arrived: signal(), verifying: signal(),
	}
}

// uncommitted returns the reservations that the database does not have.
func (c *core) uncommitted(ctx context.Context, list []orders.Reservation) ([]orders.Reservation, error) {
	var left []orders.Reservation
	for part := range slices.Chunk(list, loadChunk) {
		ids := make([]orders.ID, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		found, err := c.store.Statuses(ctx, ids)
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

// within returns the result of fn no later than after Options.Timeout, or at ctx's deadline. fn continues when it is late or ctx is
// cancelled: commands that share a round trip ignore contexts, and what Redis did has to be recorded. So fn writes nothing that the caller
// reads but its result.
func within[T any](ctx context.Context, c *core, fn func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	value, err := redisscript.Within(ctx, func() (T, error) { return fn(ctx) })
	return value, unavailable(err)
}

// readClock reads Redis' time.
func (c *core) readClock(ctx context.Context) error {
	sent := time.Now()
	now, err := c.base.Time(ctx).Result()
	if err == nil {
		c.clock.read(now.Add(time.Since(sent) / 2).UnixMilli())
	}
	return unavailable(err)
}

// over reports whether Redis has forgotten a sale, by Redis' clock: this process's own may be wrong.
func (c *core) over(s *orders.Sale) bool {
	now, known := c.clock.now()
	return known && now.After(forgetAt(s))
}

// unavailable wraps errors of the Redis client in ErrUnavailable.
func unavailable(err error) error {
	if err == nil || errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrRecovering) || errors.Is(err, orders.ErrUnknownOrder) {
		return err
	}
	return fmt.Errorf("%w: redis: %w", orders.ErrUnavailable, err)
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// poke wakes the reader of a channel of capacity one.
func poke(ch chan struct{}) {
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

func (c *clock) read(unixMS int64) {
	c.last.Store(&reading{server: time.UnixMilli(unixMS), at: time.Now()})
}

// offset returns how far the server's clock is ahead of this process's; 0 before the first reading.
func (c *clock) offset() time.Duration {
	now, known := c.now()
	if !known {
		return 0
	}
	return now.Sub(time.Now().Round(0)) // Round strips the monotonic reading
}

// now is the server's time, wrong by at most a round trip. Before the first reading it is the local clock's, which may be wrong by days, and known
// is false.
func (c *clock) now() (now time.Time, known bool) {
	r := c.last.Load()
	if r == nil {
		return time.Now(), false
	}
	return r.server.Add(time.Since(r.at)), true
}
