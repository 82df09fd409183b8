package shop_test

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
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/redisclient"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	rdb := checked(redisclient.Open(os.Getenv("REDIS_URL")))     // such as redis://localhost:6379
	pool := checked(pgxpool.New(ctx, os.Getenv("DATABASE_URL"))) // such as postgres://localhost/shop
	check(migrations.Postgres(ctx, stdlib.OpenDBFromPool(pool))) // creates or updates the tables

	set := admission.Rules(rules.Rule{Name: "orders", Subject: rules.User, Limit: 5, Window: time.Minute}) // or rules.Load("rules.yaml")
	gate := checked(admission.New(rdb, set, admission.Options{Secret: []byte("the same in every process")}))
	sales := checked(shop.Open(ctx, rdb, postgres.New(pool), asynqueue.New(rdb), shop.Options{}))
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return gate.Run(ctx) })  // reloads rules, and exchanges bans with other processes
	running.Go(func() error { return sales.Run(ctx) }) // commits, expires and recovers
	check(sales.WaitReady(ctx))

	_, _, err := sales.PutSale(ctx, orders.Definition{
		ID: "trial", StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour),
		Items: []orders.ItemDefinition{{ID: "shoe", Stock: 100}}, // one for each buyer, who has 15 minutes to pay
	})
	check(err)
	checked(sales.SetSwitch(ctx, "trial", orders.SwitchOpen))

	d := checked(gate.Charge(ctx, admission.Request{User: "ann", Route: "/orders", Method: "POST"}))
	fmt.Println("admitted:", d.Admitted, d.Reason, d.RetryAfter)
	out := checked(sales.Place(ctx, orders.Request{Sale: "trial", Item: "shoe", User: "ann"})) // after ErrUnavailable: again
	if !out.Admitted() {
		log.Fatal("refused: ", out.Reason)
	}
	o := checked(sales.Wait(ctx, out.Order.ID, orders.Viewer{User: "ann"}, orders.StatusAccepted, 10*time.Second))
	fmt.Println("order:", o.Item, o.Units, o.Status)
	p := checked(sales.Pay(ctx, o.ID, "pi_1"))
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
