package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/admin"
	"github.com/tidegate/tidegate/orders/shop/internal/audit"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/commit"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/members"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
	"github.com/tidegate/tidegate/orders/shop/internal/recovery"
	"github.com/tidegate/tidegate/orders/shop/internal/replica"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
	"github.com/tidegate/tidegate/redisclient"
)

// A Service consists of parts (ADR 28), to which its calls in calls.go lead. A part has the state that only it changes, and refers to
// the parts that it calls. newService makes them in the order of the struct, which is that of their packages: no part refers to a later one.
//
// An order goes from the reserver, which decides it, through the enqueuer, the worker and the committer to the notifier. The ledger
// is the copy of it that the process keeps meanwhile. Background loops start in Run; the signals of package core wake them.

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
	// CommitOnly is for a process that only commits. Open then only logs that Redis provides less than Durability. The process is not notified of
	// orders: Wait and Events notice changes by asking the database, and Committed stays 0.
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
		return fmt.Errorf("orders: namespace %q must be "+names.Length+" letters, digits, dots, underscores or hyphens", o.Namespace)
	case o.Timeout < 0 || o.MaxRemembered < 0:
		return errors.New("orders: timeout and remembered orders must not be negative")
	case o.AcceptOnly && o.CommitOnly:
		return errors.New("orders: a process is for accepting only or for committing only, or for both without either option")
	}
	return o.Durability.validate()
}

// Service accepts orders, reads them, and lets operators run sales. Every process of an installation has one. The zero value is
// not usable; use Open. Safe for concurrent use.
type Service struct {
	opts    Options
	core    *core.Core       // what all parts use
	waiters *reading.Waiters // callers that wait for changes
	turning *liveness.Pulse  // of the loop that hands orders over

	regressions *catalog.Regressions // detects that the database went back in time
	sales       *catalog.Watch       // the sales, in this process and in Redis
	notifier    *reading.Notifier    // publishes changes, and receives those of other processes
	enqueuer    *queue.Enqueuer      // puts accepted orders into the queue
	reader      *reading.Reader      // reads orders, and waits for their changes
	membership  *members.Membership  // sends heartbeats, holds the lease and observes the other processes
	reserver    *reserve.Reserver    // decides requests in memory, or with reserve.lua
	committer   *commit.Committer    // writes orders to the database, and clears the outbox
	lifecycle   *commit.Lifecycle    // pays, cancels, expires and replays orders, and returns their units
	worker      *commit.Worker       // takes orders from the queue and the outbox to the committer
	keeper      *commit.Keeper       // commits what this process remembers: at a recovery, after a silence, at the end
	recoverer   *recovery.Recoverer  // rebuilds sales that Redis lost
	admin       *admin.Admin         // changes sales for operators
	verifier    *audit.Verifier      // compares Redis, the database and its schema
}

type (
	// A Store is the database: postgres.New of package orders/postgres, sqlite.New of package orders/sqlite, or memory.New of package
	// orders/memory.
	Store = storage.Store
	// A Queue takes tasks to workers: asynqueue.New of package orders/asynqueue.
	Queue = tasks.Queue
)

// Open returns a service over clients that the caller owns, and whose Run the caller calls next. It checks that Redis and the
// database answer, that the database has the schema of package migrations, and that Redis provides Options.Durability. It
// returns ErrUnavailable if a server does not answer, ErrDurability, ErrForeign unless the database and Redis belong together,
// migrations.ErrOutdated, and *migrations.IncompleteError.
func Open(ctx context.Context, rdb *redisclient.Client, store Store, q Queue, opts Options) (*Service, error) {
	s, err := newService(rdb, store, q, opts)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSchema(ctx); err != nil {
		return nil, err
	}
	if opts.EphemeralRedis { // it keeps nothing, and does not say how
		return s, nil
	}
	if err := s.core.Claim(ctx, true); err != nil {
		return nil, err
	}
	switch err := CheckDurability(ctx, s.core.Base, opts.Durability, s.core.Logger); {
	case errors.Is(err, orders.ErrDurability) && opts.CommitOnly: // accepted orders have to be committed
		s.core.Logger.WarnContext(ctx, "Redis provides less durability than required; orders are still committed", slog.Any("error", err))
	case err != nil:
		return nil, err
	}
	return s, nil
}

func newService(rdb *redisclient.Client, store storage.Store, q tasks.Queue, opts Options) (*Service, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, core: (&core.Core{
		Namespace: opts.Namespace, Timeout: opts.Timeout, Logger: opts.Logger, Tracer: opts.Tracer, Measures: core.Measures(opts.Measures),
		Program: opts.Program, EphemeralRedis: opts.EphemeralRedis,
		Base: rdb.UniversalClient, Batched: rdb.Batched, Store: store, RunIDs: rdb.RunIDs,
	}).Init()}
	var replicas *replica.Waiter
	if opts.Durability == DurabilityReplicated {
		var err error
		if replicas, err = replica.New(s.core.Base, lua.Reserve, opts.Timeout); err != nil {
			return nil, err
		}
	}
	s.waiters, s.turning = reading.NewWaiters(), new(liveness.Pulse)
	c, remembered := s.core, ledger.New(opts.MaxRemembered)
	s.regressions = catalog.NewRegressions(c, remembered)
	s.sales = catalog.NewWatch(c, remembered, s.regressions)
	s.notifier = reading.NewNotifier(c, s.sales, remembered, s.waiters)
	s.enqueuer = queue.New(c, q)
	s.reader = reading.NewReader(c, s.sales, remembered, s.waiters)
	s.membership = members.New(c, s.regressions, s.turning)
	s.reserver = reserve.New(c, s.sales, remembered, s.membership, s.reader, s.enqueuer, replicas)
	s.committer = commit.NewCommitter(c, s.sales, s.notifier, s.reserver)
	s.lifecycle = commit.NewLifecycle(c, s.sales, s.notifier, s.reader)
	s.worker = commit.NewWorker(c, s.sales, s.enqueuer, s.committer, s.lifecycle)
	s.keeper = commit.NewKeeper(c, s.sales, remembered, s.notifier, s.enqueuer, s.committer, s.turning)
	s.recoverer = recovery.New(c, s.sales, s.regressions, s.membership, s.notifier, s.committer)
	s.admin = admin.New(c, s.sales, s.notifier, s.recoverer)
	s.verifier = audit.New(c, s.sales, s.enqueuer, s.notifier)
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
		return s.worker.Run(ctx)
	})
	return g.Wait()
}

func (s *Service) runLoops(ctx context.Context) error {
	s.turning.Beat(commit.Turn)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.notifier.Listen(ctx, s.opts.CommitOnly) })
	g.Go(func() error { return s.sales.Watch(ctx) })
	g.Go(func() error { return s.recoverer.RecoverSales(ctx) })
	g.Go(func() error { return s.keeper.AskForCommits(ctx) })
	g.Go(func() error { return s.membership.SendHeartbeats(ctx) })
	g.Go(func() error { return s.keeper.HandOvers(ctx) })
	g.Go(func() error { return s.verifier.WatchSchema(ctx) })
	g.Go(func() error { return s.enqueuer.Enqueue(ctx) })
	g.Go(func() error { return s.enqueuer.WatchQueue(ctx) })
	g.Go(func() error { return s.watchEviction(ctx) })
	return core.IgnoreCanceled(g.Wait())
}

// WakeWaiters wakes all callers that wait for an order, because the process is about to exit.
func (s *Service) WakeWaiters() { s.waiters.Stop() }
