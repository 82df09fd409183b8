package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/redisclient"
)

// Options of a Service.
type Options struct {
	// Namespace is in front of every key, channel and queue. Default "tidegate".
	Namespace string
	// Timeout bounds a decision in Redis. Default 200 ms.
	Timeout time.Duration
	// RememberMax bounds the uncommitted orders of which this process keeps a second copy. When it is reached, further orders
	// are refused. As many committed orders are remembered, to recognize repeated requests. Default 100,000.
	RememberMax int
	// Durability is the guarantee that a reservation in Redis must have before the order is accepted. Default: whatever the
	// server provides.
	Durability Durability
	// Measures are optional callbacks for measurements.
	Measures Measures
	// Tracer makes a span of each reservation, task and transaction. Nil disables tracing, which costs nothing then.
	Tracer trace.Tracer
	// StartsEmpty says that Redis always starts empty together with this process. Rebuilding the sales is then logged as
	// information, not as a warning, unless an order was uncommitted.
	StartsEmpty bool
	// Queue is the client for Asynq. Default: the servers of the decisions.
	Queue redis.UniversalClient
	// CommitNothing leaves committing to other processes: Run accepts orders and has no worker.
	CommitNothing bool
	// AcceptNothing is for a process that only commits. Open then only logs that Redis provides less than Durability.
	AcceptNothing bool
	// Logger receives the messages for operators. Default: slog.Default().
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

// Service accepts orders, reads them, and lets operators run sales. Every process of an installation has one. The zero value is
// not usable; use Open. Safe for concurrent use.
type Service struct {
	opts     Options
	base     redis.UniversalClient // one command at a time: subscriptions, scans, INFO, recoveries
	rdb      redis.UniversalClient // callers share round trips
	store    Store
	runIDs   *redisclient.RunIDWatcher
	replicas *replicaWaiter // for reservations that wait for a replica; nil when none does

	reserving  *reserveBatcher
	reading    *batch.Batcher[ID, Order]     // orders as the database has them
	paying     *batch.Batcher[capture, bool] // whether the order was paid
	cancelling *batch.Batcher[ID, bool]      // whether the order was cancelled

	queue      redis.UniversalClient
	tasks      *asynq.Client
	enqueueing chan offered
	queues     int           // how many Asynq queues there are
	enqueued   atomic.Int64  // when this process enqueued last, Unix nanoseconds
	arrived    chan struct{} // a task was enqueued after a while without

	catalog    atomic.Pointer[catalog]
	loading    sync.Mutex // serializes reads of the sales, so that none overwrites a later one
	clock      clock
	ledger     *ledger
	waiters    *waiters
	committed  atomic.Uint64 // commits that were reported
	suspects   sync.Map      // ids of sales that Redis may have forgotten
	suspected  chan struct{}
	leading    chan struct{} // holds a value while this process leads a sale
	flights    singleflight.Group
	compared   atomic.Bool   // the sales were read, and compared with Redis, once
	checkNow   chan struct{} // the sales have to be read, and compared with Redis
	asking     chan struct{} // orders of this process may have lost their other copies
	handing    chan struct{} // a sale is being recovered
	replaced   chan struct{} // Redis is another server than before
	process    string        // names this process to the others
	lease      lease
	heartbeats observer

	regressions   sync.Map    // sale → the epoch in which it was seen before the database went back in time
	replacedStore atomic.Bool // the database server is another one, and not reviewed yet
	reviewed      *catalog    // the catalog of the latest review, nil before the first; used by the watch only, like lastEvent
	lastEvent     LastEvent   // the newest event seen
}

// Open returns a service over clients that the caller owns, and whose Run the caller calls next. It checks that Redis and the
// database answer, that the database has the schema of package migrations, and that Redis provides Options.Durability. It
// returns ErrUnavailable if a server does not answer, ErrDurability, and migrations.ErrOutdated.
//
// The store is postgres.New(pool) of package orders/postgres. It is not made here because the stores import this package for the
// types that they store, and because the embedded server uses another one.
func Open(ctx context.Context, rdb *redisclient.Client, store Store, opts Options) (*Service, error) {
	s, err := newService(rdb, store, opts)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSchema(ctx); err != nil {
		return nil, err
	}
	if opts.StartsEmpty { // it keeps nothing, and does not say how
		return s, nil
	}
	switch err := s.checkDurability(ctx); {
	case errors.Is(err, ErrDurability) && opts.AcceptNothing: // accepted orders have to be committed
		s.opts.Logger.WarnContext(ctx, "Redis provides less durability than required; orders are still committed", slog.Any("error", err))
	case err != nil:
		return nil, err
	}
	return s, nil
}

func newService(rdb *redisclient.Client, store Store, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	queue := opts.Queue
	switch client := queue.(type) {
	case nil:
		queue = rdb.Queue()
	case *redisclient.Client:
		queue = client.Queue()
	}
	s := &Service{
		opts: opts, base: rdb.UniversalClient, rdb: rdb.Batched, store: store, runIDs: rdb.RunIDs,
		tasks:      asynq.NewClientFromRedisClient(queue),
		queue:      queue,
		enqueueing: make(chan offered, 16_384),
		queues:     1,
		arrived:    make(chan struct{}, 1),
		ledger:     newLedger(opts.RememberMax),
		waiters:    newWaiters(),
		suspected:  make(chan struct{}, 1),
		leading:    make(chan struct{}, 1),
		checkNow:   make(chan struct{}, 1),
		asking:     make(chan struct{}, 1),
		handing:    make(chan struct{}, 1),
		replaced:   make(chan struct{}, 1),
		process:    uuid.NewString(),
	}
	if _, ok := queue.(*redis.ClusterClient); ok {
		s.queues = queuesOfCluster
	}
	if opts.Durability == DurabilityReplicated {
		var err error
		if s.replicas, err = newReplicaWaiter(s.base, reserveScript, opts.Timeout); err != nil {
			return nil, err
		}
	}
	s.reserving = newReserveBatcher(s.reserveBatch)
	s.reading = batch.New(statementMax, statementsAtOnce, s.readBatch)
	s.paying = batch.New(statementMax, statementsAtOnce, s.payBatch)
	s.cancelling = batch.New(statementMax, statementsAtOnce, s.cancelBatch)
	s.catalog.Store(newCatalog(s, nil, nil, nil))
	s.runIDs.Notify(s.checkNow)
	return s, nil
}

// Run does the background work of a process until ctx ends: it receives changes from other processes, sends heartbeats, hands
// accepted orders to the queue, rebuilds sales that Redis lost, and, unless Options.CommitNothing is set, commits orders, sweeps
// the outbox and expires orders. When ctx ends it finishes the tasks in progress. Without it no order is accepted.
func (s *Service) Run(ctx context.Context) error {
	if s.opts.CommitNothing {
		return s.runLoops(ctx)
	}
	// The worker stops first: its last commits need the loops.
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runLoops(looping) })
	g.Go(func() error {
		defer stop()
		return newWorker(s).run(ctx)
	})
	return g.Wait()
}

func (s *Service) runLoops(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.listen(ctx) })
	g.Go(func() error { return s.watch(ctx) })
	g.Go(func() error { return s.recoverSales(ctx) })
	g.Go(func() error { return s.askForCommits(ctx) })
	g.Go(func() error { return s.sendHeartbeats(ctx) })
	g.Go(func() error { return s.handOvers(ctx) })
	g.Go(func() error { return s.enqueue(ctx) })
	return ignoreCanceled(g.Wait())
}

// Stop wakes all callers that wait for an order, because the process is about to exit.
func (s *Service) Stop() { s.waiters.stop() }

// Ready returns the reason why the service cannot accept orders, or nil.
func (s *Service) Ready(ctx context.Context) error {
	var errs []error // of both stores, since an operator needs to see both; Redis is asked first because its timeout is shorter
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

// within runs fn, and returns no later than after Options.Timeout, or at ctx's deadline. fn continues when it is late or ctx is
// cancelled: commands that share a round trip ignore contexts, and what Redis did has to be recorded.
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

// unavailable wraps errors of the Redis client in ErrUnavailable.
func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRecovering) || errors.Is(err, ErrUnknownOrder) {
		return err
	}
	return fmt.Errorf("%w: redis: %w", ErrUnavailable, err)
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
