package orders_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/redisclient"
)

// A program that sells, in one process: it opens a sale of one item, takes an order, and records its payment.
func Example() {
	if err := sell(context.Background(), "redis://localhost:6379", "postgres://localhost/shop"); err != nil {
		log.Fatal(err)
	}
}

func sell(ctx context.Context, redisURL, postgresURL string) error {
	db, err := sql.Open("pgx", postgresURL)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := migrations.Postgres(ctx, db); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, postgresURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	rdb, err := redisclient.Open(redisURL)
	if err != nil {
		return err
	}
	defer rdb.Close()

	shop, err := orders.Open(ctx, rdb, postgres.New(pool), orders.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return shop.Run(running) })
	err = buy(running, shop)
	stop()
	return errors.Join(err, g.Wait())
}

func buy(ctx context.Context, shop *orders.Service) error {
	if err := retry(ctx, func() error { return shop.Ready(ctx) }); err != nil {
		return err
	}
	if err := retry(ctx, func() error {
		_, _, err := shop.PutSale(ctx, orders.Sale{
			ID: "s", StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour), Hold: orders.DefaultHold,
			Items: []orders.Item{{ID: "i", Stock: 100, QuotaPerBuyer: 1, InFlightMax: orders.DefaultInFlight}},
		})
		return err
	}); err != nil {
		return err
	}
	if err := retry(ctx, func() error { _, err := shop.SetSwitch(ctx, "s", orders.SwitchOpen); return err }); err != nil {
		return err
	}

	var out orders.Outcome
	if err := retry(ctx, func() (err error) {
		out, err = shop.Place(ctx, orders.Request{Sale: "s", Item: "i", User: "ann"})
		return err
	}); err != nil {
		return err
	}
	if !out.Admitted() {
		fmt.Println("refused:", out.Reason)
		return nil
	}
	id := out.Order.ID
	if err := retry(ctx, func() error { _, err := shop.Pay(ctx, id, "capture-1"); return err }); err != nil {
		return err
	}
	var o orders.Order
	err := retry(ctx, func() (err error) {
		o, err = shop.Order(ctx, id, orders.Viewer{User: "ann"})
		return err
	})
	fmt.Println(o.Item, o.Units, o.Status)
	return err
}

// retry repeats a call that could not be decided. All calls of the package may be repeated.
func retry(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestExample runs the example with real servers.
func TestExample(t *testing.T) {
	if err := sell(t.Context(), testenv.StartRedis(t).URL(), databases.Postgres(t)); err != nil {
		t.Fatal(err)
	}
}

// TestOpenWithoutSchema: a database whose schema is too old is refused at the start.
func TestOpenWithoutSchema(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), databases.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `DROP TABLE tidegate_versions`)
	must(t, err)
	rdb, err := redisclient.Open(testenv.Redis(t))
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	if _, err := orders.Open(t.Context(), rdb, postgres.New(pool), orders.Options{Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, migrations.ErrOutdated) {
		t.Errorf("%v, want %v", err, migrations.ErrOutdated)
	}
}
