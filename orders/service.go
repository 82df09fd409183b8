package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/batch"
)

// Options of a Service.
type Options struct {
	// Namespace is in front of every key, channel and queue. Default "tidegate".
	Namespace string
	// Timeout bounds a decision in Redis. Default 200 ms.
	Timeout time.Duration
	// RememberMax bounds the uncommitted orders this process keeps a second
	// copy of. When it is reached, further ones are refused. As many committed
	// ones are remembered, to know their repeats. Default 100,000.
	RememberMax int
	// Durability is what has to be true of a reservation in Redis before it is
	// promised. Default: whatever the server does by itself.
	Durability Durability
	// Measures are told how long things take.
	Measures Measures
	// Tracer makes a span of each reservation, task and transaction. Nil: nobody does, which costs nothing.
	Tracer trace.Tracer
	// StartsEmpty says that Redis begins without any memory whenever this process does. To rebuild the sales is then no warning, unless
	// something had not been committed.
	StartsEmpty bool
	// Logger hears what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = "tidegate"
	}
	if o.Timeout == 0 {
		o.Timeout = 200 * time.Millisecond
	}
	if o.RememberMax == 0 {
		o.RememberMax = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Measures = o.Measures.withDefaults()
	return o
}

func (o Options) validate() error {
	switch {
	case !ValidName(o.Namespace):
		return fmt.Errorf("orders: namespace %q must be 1 to 64 letters, digits, dots, underscores or hyphens", o.Namespace)
	case o.Timeout < 0 || o.RememberMax < 0:
		return errors.New("orders: timeout and remembered orders must not be negative")
	}
	return o.Durability.validate()
}

// Service takes orders, answers for them, and lets operators run sales. Every
// process of an installation has one. The zero value is not usable; New's is
// safe for concurrent use.
type Service struct {
	opts  Options
	base  redis.UniversalClient // one command at a time: subscriptions, scans, INFO, recoveries
	rdb   redis.UniversalClient // callers share round trips
	store Store
	fence *Fence
	kept  *groups // for reservations that wait for a replica; nil when none does

	reserving *reserveBatcher
	reading   *batch.Batcher[ID, Order]     // orders as the database has them
	paying    *batch.Batcher[capture, bool] // whether the order was paid
	ending    *batch.Batcher[ID, bool]      // whether the order was cancelled

	queue      redis.UniversalClient
	tasks      *asynq.Client
	enqueueing chan offered
	queues     int           // how many Asynq queues there are
	enqueued   atomic.Int64  // when this process enqueued last, Unix nanoseconds
	arrived    chan struct{} // a task was enqueued after a while without

	catalog   atomic.Pointer[catalog]
	loading   sync.Mutex // one reading of the sales at a time, so that none undoes a later one
	clock     clock
	ledger    *ledger
	waiters   *waiters
	committed atomic.Uint64 // commits heard of
	suspects  sync.Map      // ids of sales that Redis may have forgotten
	suspected chan struct{}
	leading   chan struct{} // holds a value while this process leads a sale
	flights   singleflight.Group
	compared  atomic.Bool   // the sales were read, and compared with Redis, once
	asking    chan struct{} // orders of this process may have lost their other copies
	handing   chan struct{} // a sale is being recovered
	replaced  chan struct{} // Redis is another server than before
	process   string        // names this process to the others
	lease     lease
	roll      observer

	regressions   sync.Map    // sale → the epoch in which it was seen before the database went back in time
	replacedStore atomic.Bool // the database server is another one, and not reviewed yet
	reviewed      *catalog    // of the latest review, nil before the first; the watch's, as the mark
	mark          Mark        // the newest event seen
}

// New returns a service over clients that the caller owns: rdb for decisions,
// made from admission.RedisOptions with fence.OnConnect, and queue for Asynq.
func New(rdb, queue redis.UniversalClient, store Store, fence *Fence, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	shared, err := admission.AutoPipeline(rdb)
	if err != nil {
		return nil, err
	}
	s := &Service{
		opts: opts, base: rdb, rdb: shared, store: store, fence: fence,
		tasks:      asynq.NewClientFromRedisClient(queue),
		queue:      queue,
		enqueueing: make(chan offered, 16_384),
		queues:     1,
		arrived:    make(chan struct{}, 1),
		ledger:     newLedger(opts.RememberMax),
		waiters:    newWaiters(),
		suspected:  make(chan struct{}, 1),
		leading:    make(chan struct{}, 1),
		asking:     make(chan struct{}, 1),
		handing:    make(chan struct{}, 1),
		replaced:   make(chan struct{}, 1),
		process:    uuid.NewString(),
	}
	if _, ok := queue.(*redis.ClusterClient); ok {
		s.queues = queuesOfCluster
	}
	if opts.Durability == DurabilityReplicated {
		if s.kept, err = newGroups(rdb, reserveScript, opts.Timeout); err != nil {
			return nil, err
		}
	}
	s.reserving = newReserveBatcher(s.reserveTogether)
	s.reading = batch.New(togetherMax, togetherAtOnce, s.readTogether)
	s.paying = batch.New(togetherMax, togetherAtOnce, s.payTogether)
	s.ending = batch.New(togetherMax, togetherAtOnce, s.endTogether)
	s.catalog.Store(newCatalog(s, nil, nil, nil))
	return s, nil
}

// Run keeps the service current until ctx ends: it hears what other processes
// changed, hands accepted orders to the queue, and rebuilds sales that Redis
// forgot. A process that does not run it takes no orders.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.listen(ctx) })
	g.Go(func() error { return s.watch(ctx) })
	g.Go(func() error { return s.recoverSales(ctx) })
	g.Go(func() error { return s.askForCommits(ctx) })
	g.Go(func() error { return s.beat(ctx) })
	g.Go(func() error { return s.handOvers(ctx) })
	for range enqueuers {
		g.Go(func() error { return s.enqueue(ctx) })
	}
	return ignoreCanceled(g.Wait())
}

// Stop wakes everybody who waits for an order, as the process is about to go.
func (s *Service) Stop() { s.waiters.stop() }

// Ready returns what keeps the service from taking orders, or nil.
func (s *Service) Ready(ctx context.Context) error {
	var errs []error // of both, for who is to mend one should know of the other; Redis is asked first, for it is given less time
	if err := s.within(ctx, func(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }); err != nil {
		errs = append(errs, fmt.Errorf("redis: %w", err))
	}
	if err := s.store.Ping(ctx); err != nil {
		errs = append(errs, fmt.Errorf("database: %w", err))
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	if !s.compared.Load() {
		return fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)
	}
	if _, ok := s.lease.held(time.Now()); !ok {
		return errNoLease
	}
	return s.regressionError()
}

// within runs fn, and returns no later than the timeout of a decision, or ctx's
// deadline. fn runs on when it is late, or ctx is cancelled: commands that
// share a round trip do not heed contexts, and what Redis did has to be noted
// by somebody.
func (s *Service) within(ctx context.Context, fn func(context.Context) error) error {
	deadline := time.Now().Add(s.opts.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- fn(ctx)
	}()
	select {
	case err := <-done:
		return unavailable(err)
	case <-ctx.Done():
		select {
		case err := <-done:
			return unavailable(err)
		default:
			return fmt.Errorf("%w: no answer in time", ErrUnavailable)
		}
	}
}

// unavailable marks errors of Redis' client.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRecovering) || errors.Is(err, ErrUnknownOrder) {
		return err
	}
	return fmt.Errorf("%w: redis: %w", ErrUnavailable, err)
}

// every runs turn now and after each interval, a little spread, until ctx ends.
func every(ctx context.Context, interval time.Duration, wake <-chan struct{}, turn func()) error {
	for {
		turn()
		timer := time.NewTimer(interval + rand.N(interval/10+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
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
