// Package embedded runs all of Tidegate in one process without other servers: Redis in memory, orders in SQLite, and the worker.
//
// Committed orders are durable. Orders in flight may be lost if the process crashes, because they are only in its memory; on a regular
// shutdown it commits them first. After a restart the sales are rebuilt from the database, so that sold units stay sold.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/orders/sqlite"
	"github.com/tidegate/tidegate/waitingroom"
)

// timeout is the timeout for the parts to become ready; all are in this process.
const timeout = 30 * time.Second

// decideWithin is long because the Redis in memory can be slow but is never unavailable: a timeout would only cause retries.
const decideWithin = 2 * time.Second

// pollEvery is the interval of polling where there is no notification.
const pollEvery = 20 * time.Millisecond

// Run serves until ctx ends. It calls ready once the sample sale is open, and returns ErrInUse if another process uses the data folder.
func Run(ctx context.Context, cfg *config.Config, log *slog.Logger, ready func(Place)) (err error) {
	log, traces, err := serve.Observe(ctx, cfg, log, "tidegate")
	if err != nil {
		return err
	}
	defer traces.Close()
	data, err := openFolder(cfg.Data)
	if err != nil {
		return err
	}
	defer data.close()
	completed := *cfg
	if completed.Secret == "" {
		if completed.Secret, err = data.secret(); err != nil {
			return err
		}
	}
	db, err := data.database(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	memory, err := startMemory()
	if err != nil {
		return err
	}
	defer memory.close()
	r, err := serve.OpenRedis(memory.url, memory.url, decideWithin)
	if err != nil {
		return err
	}
	defer func() { r.CloseAfter(err) }()

	measured := serve.Metrics(r)
	store := sqlite.New(db)
	svc, err := shop.Open(ctx, r.Decisions, store, asynqueue.New(r.Queue),
		shop.Options{
			Namespace: completed.Namespace, Timeout: decideWithin, EphemeralRedis: true, MaxRemembered: completed.MaxRemembered,
			Program: "embedded", Measures: measured.Orders(), Tracer: traces.Tracer(), Logger: log,
		})
	if err != nil {
		return err
	}
	counts := memorystore.New(memorystore.Options{})
	listening := make(chan map[string]string, 1)
	p := &serve.Process{
		Log: log, Tracer: traces.Tracer(), Metrics: measured, Service: svc,
		Linger: serve.Linger, KeepAlive: completed.KeepAlive, Servers: 2 * r.Conns, // both ends
		Settle: func(ctx context.Context) error { return settle(ctx, svc) },
		Ready:  func(addrs map[string]string) { listening <- addrs },
		Background: []func(context.Context) error{memory.Run, counts.Run, func(ctx context.Context) error {
			sale, err := openSample(ctx, svc)
			if err != nil {
				return err
			}
			select {
			case addrs := <-listening:
				ready(Place{
					Public: baseURL(addrs["public"]), Internal: baseURL(addrs["internal"]), Redis: string(memory.url), Sale: sale, Folder: cfg.Data,
					Identity: cfg.Identity,
				})
			case <-ctx.Done(): // stopped before it listened
			}
			<-ctx.Done()
			return nil
		}},
	}
	if err := p.AddHTTP(ctx, &completed, serve.HTTP{
		Orders: svc, Counts: counts, Redis: r, BanScript: true, Semaphores: semregistry.SQLite(db),
		Rooms:    waitingroom.SQLite(db, store.Writing()),
		Failures: login.NewMemoryStore(), History: history.SQLite(db), Within: decideWithin,
	}); err != nil {
		return err
	}
	return p.Run(ctx)
}

// openSample waits until orders can be placed, and creates a sample sale if there is none.
func openSample(ctx context.Context, svc *shop.Service) (string, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := until(within, svc.Ready); err != nil {
		return "", err
	}
	var sale string
	err := until(within, func(ctx context.Context) (err error) {
		sale, err = ensureSample(ctx, svc, time.Now())
		return err
	})
	return sale, err
}

// settle waits until every accepted order is committed or a dead letter, which only an operator can resolve.
func settle(ctx context.Context, svc *shop.Service) error {
	return until(ctx, func(ctx context.Context) error {
		all, err := svc.Sales(ctx, "", 0)
		if err != nil {
			return err
		}
		letters, err := svc.DeadLetters(ctx, orders.ID{}, 1000)
		if err != nil {
			return err
		}
		dead := make(map[orders.ID]bool, len(letters))
		for i := range letters {
			dead[letters[i].Reservation.ID] = true
		}
		for _, sale := range all {
			q := orders.Query{Sale: sale.ID, Viewer: orders.Viewer{All: true}, Status: orders.StatusAccepted, Limit: len(dead) + 1}
			waiting, err := svc.Orders(ctx, q)
			if err != nil {
				return err
			}
			for i := range waiting {
				if !dead[waiting[i].ID] {
					return fmt.Errorf("embedded: order %s of sale %s is not committed", waiting[i].ID, sale.ID)
				}
			}
		}
		return nil
	})
}

// until calls ask repeatedly until it returns no error or ctx ends.
func until(ctx context.Context, ask func(context.Context) error) error {
	var failed error
	err := periodic.Until(ctx, pollEvery, func() bool {
		failed = ask(ctx)
		return failed == nil
	})
	return errors.Join(err, failed)
}

// Place holds the addresses of a running embedded server.
type Place struct {
	Public, Internal string // URLs
	Redis            string // URL of the Redis in memory, with its password
	Sale             string // name of the sample sale
	Identity         string // as in config.Config
	Folder           string
}

// Describe prints the URLs, what is stored, and how to place an order.
func (p Place) Describe(w io.Writer) {
	user, hint := `-H 'X-User-ID: alice'`, ""
	if p.Identity == config.IdentityJWT {
		user, hint = `-H "Authorization: Bearer $TOKEN"`,
			"TOKEN is a JWT of one of your users; docs/identity.md shows how to make one for a trial.\n\n"
	}
	fmt.Fprintf(w, `Tidegate is running as an embedded server: Redis in memory, orders in %[1]s.
Committed orders are durable. Orders in flight may be lost if the process is killed.
For real sales, set REDIS_URL and DATABASE_URL.

  public     %[2]s    %[2]s/docs
  internal   %[3]s    %[3]s/docs
  live page  %[3]s/

The sale %[4]s is open. Order a %[5]s:

  curl -i %[2]s/v1/sales/%[4]s/orders %[6]s -H 'Content-Type: application/json' -d '{"item":"%[5]s"}'

%[7]s`, p.Folder, p.Public, p.Internal, p.Sale, sampleItem, user, hint)
}

// baseURL returns the URL of a listener for clients on this machine.
func baseURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
