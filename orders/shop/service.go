package shop

// A Service consists of parts (ADR 28), to which its calls in calls.go lead. A part has the state that only it changes, and refers to
// the parts that it calls. newService makes them in the order of the struct: no part refers to a later one.
//
// An order goes from the reserver, which decides it, through the enqueuer, the worker and the committer to the notifier. The ledger
// (ledger.go) is the copy of it that the process keeps meanwhile. Background loops start in Run; signals in core.go wake them.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/orders/shop/internal/replica"
	"github.com/tidegate/tidegate/redisclient"
)

// Options of a Service.
type Options struct {
	// Namespace is in front of every key, channel and queue. Default "tidegate".
	Namespace string
	// Timeout bounds a decision in Redis. Default 200 ms.
	Timeout time.Duration
	// MaxRemembered bounds the uncommitted orders of which this process keeps a second copy. When it is reached, further orders
	// are refused. At least as many of the latest committed orders are remembered, to recognize repeated requests, and to commit
	// them again if the database loses them. Default 100,000: about 25 MB for the committed ones.
	MaxRemembered int
	// Durability is the guarantee that a reservation in Redis must have before the order is accepted. Default: whatever the
	// server provides.
	Durability Durability
	// Measures are optional callbacks for measurements.
	Measures Measures
	// Tracer makes a span of each reservation, task and transaction. Nil disables tracing, which costs nothing then.
	Tracer trace.Tracer
	// EphemeralRedis means that Redis always starts empty together with this process. Rebuilding the sales is then logged as
	// information, not as a warning, unless an order was uncommitted.
	EphemeralRedis bool
	// AcceptOnly leaves committing to other processes: Run accepts orders and has no worker.
	AcceptOnly bool
	// CommitOnly is for a process that only commits. Open then only logs that Redis provides less than Durability.
	CommitOnly bool
	// Logger receives the messages for operators. Default: slog.Default().
	Logger *slog.Logger
	// Program names the program to operators, where one of its processes keeps others waiting. Default: the name of its file.
	Program string
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = "tidegate"
	}
	if o.Timeout == 0 {
		o.Timeout = 200 * time.Millisecond
	}
	if o.MaxRemembered == 0 {
		o.MaxRemembered = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Program == "" {
		o.Program = filepath.Base(os.Args[0])
	}
	return o
}

func (o Options) validate() error {
	switch {
	case !orders.ValidName(o.Namespace):
		return fmt.Errorf("orders: namespace %q must be 1 to 64 letters, digits, dots, underscores or hyphens", o.Namespace)
	case o.Timeout < 0 || o.MaxRemembered < 0:
		return errors.New("orders: timeout and remembered orders must not be negative")
	}
	return o.Durability.validate()
}

// Service accepts orders, reads them, and lets operators run sales. Every process of an installation has one. The zero value is
// not usable; use Open. Safe for concurrent use.
type Service struct {
	opts        Options
	core        core         // core.go, keys.go, durability.go: what all parts use
	regressions regressions  // regress.go: detects that the database went back in time
	sales       catalogWatch // catalog.go, salewatch.go, cacheditem.go, salestatus.go: the sales, in this process and in Redis
	notifier    notifier     // notification.go: publishes changes, and receives those of other processes
	enqueuer    enqueuer     // queue.go: puts accepted orders into the queue
	reader      reader       // read.go, events.go: reads orders, and waits for their changes
	membership  membership   // heartbeats.go: sends heartbeats, holds the lease and observes the other processes
	reserver    reserver     // reserve.go, reservebatch.go: decides requests in memory, or with reserve.lua
	committer   committer    // committer.go, lateorders.go: writes orders to the database, and clears the outbox
	lifecycle   lifecycle    // lifecycle.go, returns.go, deadletter.go: pays, cancels, expires and replays orders, and returns their units
	worker      worker       // worker.go, sweeper.go: takes orders from the queue and the outbox to the committer
	keeper      keeper       // handover.go: commits what this process remembers: at a recovery, after a silence, at the end
	recoverer   recoverer    // recoverer.go, recovery.go, load.go: rebuilds sales that Redis lost
	admin       saleAdmin    // saleadmin.go: changes sales for operators
	verifier    verifier     // verify*.go, schema.go, backlog.go: compares Redis, the database and its schema
}

type (
	// A Store is the database: postgres.New of package orders/postgres, or sqlite.New of package orders/sqlite.
	Store = storage.Store
	// A Queue takes tasks to workers: asynqueue.New of package orders/asynqueue.
	Queue = tasks.Queue
)

// Open returns a service over clients that the caller owns, and whose Run the caller calls next. It checks that Redis and the
// database answer, that the database has the schema of package migrations, and that Redis provides Options.Durability. It
// returns ErrUnavailable if a server does not answer, ErrDurability, ErrForeign unless the database and Redis belong together,
// migrations.ErrOutdated, and *migrations.IncompleteError.
func Open(ctx context.Context, rdb *redisclient.Client, store Store, queue Queue, opts Options) (*Service, error) {
	s, err := newService(rdb, store, queue, opts)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSchema(ctx); err != nil {
		return nil, err
	}
	if opts.EphemeralRedis { // it keeps nothing, and does not say how
		return s, nil
	}
	if err := s.core.claim(ctx, true); err != nil {
		return nil, err
	}
	switch err := CheckDurability(ctx, s.core.base, opts.Durability, s.core.logger); {
	case errors.Is(err, orders.ErrDurability) && opts.CommitOnly: // accepted orders have to be committed
		s.core.logger.WarnContext(ctx, "Redis provides less durability than required; orders are still committed", slog.Any("error", err))
	case err != nil:
		return nil, err
	}
	return s, nil
}

func newService(rdb *redisclient.Client, store storage.Store, queue tasks.Queue, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, core: core{
		namespace: opts.Namespace, timeout: opts.Timeout, logger: opts.Logger, tracer: opts.Tracer, measures: measures(opts.Measures).withDefaults(),
		program: opts.Program, ephemeralRedis: opts.EphemeralRedis,
		base: rdb.UniversalClient, rdb: rdb.Batched, store: store, runIDs: rdb.RunIDs, process: uuid.NewString(), writer: rand.Text()[:10],
		signals: newSignals(),
	}}
	c, remembered, waiters := &s.core, ledger.New(opts.MaxRemembered), newWaiters()
	s.regressions = regressions{core: c, ledger: remembered}
	s.sales = catalogWatch{core: c, ledger: remembered, regressions: &s.regressions}
	s.sales.catalog.Store(newCatalog(map[string]*listing{}, map[int]*cachedItem{}))
	s.notifier = notifier{core: c, sales: &s.sales, ledger: remembered, waiters: waiters}
	s.enqueuer = enqueuer{core: c, notifier: &s.notifier, queue: queue, offers: make(chan offered, 16_384)}
	s.reader = reader{core: c, sales: &s.sales, ledger: remembered, waiters: waiters}
	s.reader.reading = batch.New(statementMax, statementsAtOnce, s.reader.readBatch)
	s.membership = membership{core: c, regressions: &s.regressions, turning: &s.keeper.turning, began: time.Now()}
	s.reserver = reserver{core: c, sales: &s.sales, ledger: remembered, membership: &s.membership, reader: &s.reader, enqueuer: &s.enqueuer}
	if opts.Durability == DurabilityReplicated {
		var err error
		if s.reserver.replicas, err = replica.New(c.base, reserveScript, opts.Timeout); err != nil {
			return nil, err
		}
	}
	s.committer = committer{core: c, sales: &s.sales, notifier: &s.notifier, reserver: &s.reserver}
	s.committer.batches = batch.New(commitMax, committers, s.committer.flush).Weigh(commitMax, submission.orders)
	s.lifecycle = lifecycle{core: c, sales: &s.sales, notifier: &s.notifier, reader: &s.reader}
	s.lifecycle.paying = batch.New(statementMax, statementsAtOnce, s.lifecycle.payBatch)
	s.lifecycle.cancelling = batch.New(statementMax, statementsAtOnce, s.lifecycle.cancelBatch)
	s.worker = worker{core: c, sales: &s.sales, enqueuer: &s.enqueuer, committer: &s.committer, lifecycle: &s.lifecycle}
	s.keeper = keeper{core: c, sales: &s.sales, ledger: remembered, notifier: &s.notifier, enqueuer: &s.enqueuer, committer: &s.committer}
	s.recoverer = recoverer{
		core: c, sales: &s.sales, regressions: &s.regressions, members: &s.membership, notifier: &s.notifier,
		committer: &s.committer, leading: make(chan struct{}, 1),
	}
	s.admin = saleAdmin{core: c, sales: &s.sales, notifier: &s.notifier, recoverer: &s.recoverer}
	s.verifier = verifier{core: c, sales: &s.sales, enqueuer: &s.enqueuer, notifier: &s.notifier}
	s.core.runIDs.Notify(s.core.checkNow)
	return s, nil
}

// Run does the background work of a process until ctx ends: it receives changes from other processes, sends heartbeats, hands
// accepted orders to the queue, rebuilds sales that Redis lost, and, unless Options.AcceptOnly is set, commits orders, sweeps
// the outbox and expires orders. When ctx ends it finishes the tasks in progress. Without it no order is accepted.
func (s *Service) Run(ctx context.Context) error {
	if s.opts.AcceptOnly {
		return s.runLoops(ctx)
	}
	// The worker stops first: its last commits need the loops.
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runLoops(looping) })
	g.Go(func() error {
		defer stop()
		return s.worker.run(ctx)
	})
	return g.Wait()
}

func (s *Service) runLoops(ctx context.Context) error {
	s.keeper.turning.Beat(turn)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.notifier.listen(ctx) })
	g.Go(func() error { return s.sales.watch(ctx) })
	g.Go(func() error { return s.recoverer.recoverSales(ctx) })
	g.Go(func() error { return s.keeper.askForCommits(ctx) })
	g.Go(func() error { return s.membership.sendHeartbeats(ctx) })
	g.Go(func() error { return s.keeper.handOvers(ctx) })
	g.Go(func() error { return s.verifier.watchSchema(ctx) })
	g.Go(func() error { return s.enqueuer.enqueue(ctx) })
	g.Go(func() error { return s.enqueuer.watchQueue(ctx) })
	g.Go(func() error { return s.watchEviction(ctx) })
	return ignoreCanceled(g.Wait())
}

// WakeWaiters wakes all callers that wait for an order, because the process is about to exit.
func (s *Service) WakeWaiters() { s.reader.waiters.stop() }
