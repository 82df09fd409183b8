package shop_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql's driver, for the migrations
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
)

// installation is Tidegate without HTTP: Redis, Postgres, and processes over them.
type installation struct {
	t         testing.TB
	namespace string
	redisURL  string
	pool      *pgxpool.Pool
	rdb       redis.UniversalClient // the test's own client
	timeout   time.Duration         // timeout of the processes' clients; zero: that of production
	processes []*process
}

// install uses a Redis that is not disturbed: slow replies come from a busy machine, and are waited for.
func install(t testing.TB) *installation {
	in := installOn(t, testenv.Redis(t))
	in.timeout = redisTimeout
	return in
}

// redisTimeout is shorter than the timeout of eventually.
const redisTimeout = 5 * time.Second

func installOn(t testing.TB, redisURL string) *installation {
	return installMigrated(t, redisURL, databases.Postgres(t))
}

// installIn uses an empty database.
func installIn(t testing.TB, redisURL, url string) *installation {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	must(t, migrations.Postgres(t.Context(), db))
	must(t, db.Close())
	return installMigrated(t, redisURL, url)
}

func installMigrated(t testing.TB, redisURL, url string) *installation {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	rdb := client(t, redisURL)
	t.Cleanup(func() { _ = rdb.Close() })
	return &installation{t: t, namespace: "t" + strings.ToLower(rand.Text()[:10]), redisURL: redisURL, pool: pool, rdb: rdb}
}

// client returns a client with a timeout for a busy machine.
func client(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	o, err := redisclient.ParseURL(url)
	must(t, err)
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.MasterName, DB: o.DB, ReadTimeout: 2 * redisTimeout, WriteTimeout: 2 * redisTimeout,
	})
}

// process is a running Service, like that of an API.
type process struct {
	*shop.Service
	rdb   *redisclient.Client
	queue redis.UniversalClient
	store *hooked
	stop  func()
}

// start runs a service, and stops it when the test ends.
func (in *installation) start(options ...func(*shop.Options)) *process {
	in.t.Helper()
	o, err := redisclient.ParseURL(in.redisURL)
	must(in.t, err)
	if in.timeout > 0 {
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = in.timeout, in.timeout, in.timeout, in.timeout
	}
	rdb, err := redisclient.New(o)
	must(in.t, err)
	queue := client(in.t, in.redisURL)
	opts := shop.Options{AcceptOnly: true, Namespace: in.namespace, Logger: slog.New(slog.DiscardHandler), Timeout: max(2*time.Second, in.timeout)}
	if testing.Verbose() {
		opts.Logger = slog.New(slog.NewTextHandler(in.t.Output(), nil))
	}
	for _, set := range options {
		set(&opts)
	}
	store := &hooked{Store: postgres.New(in.pool)}
	s, err := shop.NewService(rdb, store, asynqueue.New(queue), opts)
	must(in.t, err)
	s.Commits()
	stop := in.run(s.Run)
	p := &process{Service: s, rdb: rdb, queue: queue, store: store}
	p.stop = sync.OnceFunc(func() {
		in.processes = slices.DeleteFunc(in.processes, func(other *process) bool { return other == p })
		s.WakeWaiters()
		stop()
		_ = rdb.Close()
		_ = queue.Close()
	})
	in.t.Cleanup(p.stop)
	in.processes = append(in.processes, p)
	eventually(in.t, "service is ready", func() bool { return s.Ready(in.t.Context()) == nil })
	return p
}

// work runs a worker over the clients of a process.
func (in *installation) work(p *process) (stop func()) {
	in.t.Helper()
	stop = in.run(p.RunWorker)
	// Registered after the process's cleanup, so it runs first.
	in.t.Cleanup(stop)
	return stop
}

// run starts a Run method, and returns a function that stops it and waits for it. The function may be called twice.
func (in *installation) run(fn func(context.Context) error) func() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(in.t.Context()))
	var g errgroup.Group
	g.Go(func() error { return fn(ctx) })
	return func() {
		cancel()
		if err := g.Wait(); err != nil {
			in.t.Errorf("Run: %v", err)
		}
	}
}

// sale defines and publishes a sale that is open for an hour.
func (in *installation) sale(p *process, change ...func(*orders.Sale)) orders.Sale {
	in.t.Helper()
	def := orders.Sale{
		ID: "sale-" + strings.ToLower(rand.Text()[:8]), StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour),
		RequiresUser: true, Hold: 15 * time.Minute,
		Items: []orders.Item{{ID: "shoe", Stock: 10, QuotaPerBuyer: 1, InFlightMax: 10_000}},
	}
	for _, c := range change {
		c(&def)
	}
	in.answered("the sale is stored", func() error {
		_, _, err := p.PutSale(in.t.Context(), def.Definition())
		return err
	})
	in.answered("the sale is published", func() error {
		_, err := p.SetSwitch(in.t.Context(), def.ID, orders.SwitchOpen)
		return err
	})
	for _, p := range in.processes {
		eventually(in.t, "everybody knows the sale", func() bool {
			s, err := p.Sale(in.t.Context(), def.ID)
			return err == nil && s.Switch == orders.SwitchOpen
		})
	}
	return def
}

// answered repeats a call until it succeeds, as clients have to: a busy machine may take longer than the timeout of production to flush a
// file, or to tell a new connection which server it reached.
func (in *installation) answered(what string, call func() error) {
	in.t.Helper()
	var err error
	defer func() {
		if err != nil {
			in.t.Logf("%s: %v", what, err)
		}
	}()
	eventually(in.t, what, func() bool {
		err = call()
		if err != nil && !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering) {
			in.t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// order makes one request, through all steps of this package. It is a replay if its first response was lost.
func (in *installation) order(p *process, sale, user, key string, quantity int) (out orders.Outcome) {
	in.t.Helper()
	in.answered(user+" gets an answer", func() (err error) {
		out, err = attempt(in.t.Context(), p, orders.Request{Sale: sale, Item: "shoe", Quantity: quantity, User: user, Key: key})
		return err
	})
	return out
}

func attempt(ctx context.Context, p *process, req orders.Request) (orders.Outcome, error) {
	a, err := p.Prepare(req)
	if err != nil {
		return orders.Outcome{}, err
	}
	if out, decided := a.Screen(); decided {
		return out, nil
	}
	return a.Reserve(ctx)
}

// settled waits until an order has left accepted.
func (in *installation) settled(p *process, id orders.ID) orders.Order {
	in.t.Helper()
	var o orders.Order
	eventually(in.t, "order "+id.String()+" is committed", func() bool {
		var err error
		o, err = p.Wait(in.t.Context(), id, orders.Viewer{All: true}, orders.StatusAccepted, time.Second)
		if err != nil && !errors.Is(err, orders.ErrRecovering) && !errors.Is(err, orders.ErrUnavailable) {
			in.t.Fatal(err)
		}
		return err == nil && o.Status != orders.StatusAccepted
	})
	return o
}

// verified fails the test if an invariant is broken, and returns what is still under way.
func (in *installation) verified(p *process, sale string) (waiting int) {
	in.t.Helper()
	var checks []orders.Check
	in.answered("the sale is verified", func() (err error) {
		checks, err = p.Verify(in.t.Context(), sale)
		return err
	})
	for _, c := range checks {
		if !c.OK {
			in.t.Errorf("%s: %s", c.Invariant, c.Detail)
		}
		waiting += c.Waiting
	}
	return waiting
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok. Use it only where there is no signal to wait for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(3 * time.Minute) // a task handed to a connection that broke waits for its lease, 30 s, and for Asynq's next search, once a minute
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}
