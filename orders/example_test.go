package orders_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/redisclient"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	rdb := checked(redisclient.Open(os.Getenv("REDIS_URL")))     // such as redis://localhost:6379
	pool := checked(pgxpool.New(ctx, os.Getenv("DATABASE_URL"))) // such as postgres://localhost/shop
	check(migrations.Postgres(ctx, stdlib.OpenDBFromPool(pool))) // creates or updates the tables

	limit := rules.Rule{Name: "orders", Subject: rules.User, Limit: 5, Window: time.Minute}
	set := admission.Rules(limit) // or rules.Load("rules.yaml")
	gate := checked(admission.New(rdb, set, admission.Options{Secret: []byte("the same in every process")}))
	shop := checked(orders.Open(ctx, rdb, postgres.New(pool), orders.Options{}))
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return gate.Run(ctx) }) // reloads rules, and exchanges bans with other processes
	running.Go(func() error { return shop.Run(ctx) }) // commits, expires and recovers
	check(shop.WaitReady(ctx))

	now := time.Now()
	_, _, err := shop.PutSale(ctx, orders.Definition{
		ID: "trial", StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour),
		Items: []orders.ItemDefinition{{ID: "shoe", Stock: 100}}, // one for each buyer, who has 15 minutes to pay
	})
	check(err)
	checked(shop.SetSwitch(ctx, "trial", orders.SwitchOpen))

	d := checked(gate.Charge(ctx, admission.Request{User: "ann", Route: "/orders", Method: "POST"}))
	fmt.Println("admitted:", d.Admitted, d.Reason, d.RetryAfter)
	out := checked(shop.Place(ctx, orders.Request{Sale: "trial", Item: "shoe", User: "ann"})) // after ErrUnavailable: again
	if !out.Admitted() {
		log.Fatal("refused: ", out.Reason)
	}
	o := checked(shop.Wait(ctx, out.Order.ID, orders.Viewer{User: "ann"}, orders.StatusAccepted, 10*time.Second))
	fmt.Println("order:", o.Item, o.Units, o.Status)
	p := checked(shop.Pay(ctx, o.ID, "pi_1"))
	fmt.Println("payment:", p.Status, p.Action) // "refund" if the order cannot be paid any more
	stop()
	check(running.Wait())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func checked[T any](v T, err error) T {
	check(err)
	return v
}
