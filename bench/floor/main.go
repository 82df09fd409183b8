// Command floor is the least that accepts orders of one item and commits each once: a POST with Echo, one script for all orders that wait
// (limit, one order a buyer, stock, a record of what was accepted), 202, and a worker that writes what was accepted with one statement and
// then deletes the record. It has one sale, no recovery, no life after the commit and no metrics. It shows what the parts cost that
// any pipeline on Echo, Redis and Postgres needs.
//
//	floor -role api    -listen 127.0.0.1:8080 -redis redis://… -database postgres://…
//	floor -role worker -redis redis://… -database postgres://…
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// The keys of the item.
const (
	item     = "{floor}:item"     // hash: stock and next unit
	buyers   = "{floor}:buyers"   // hash: order of each buyer
	accepted = "{floor}:accepted" // hash: records of accepted orders by id
	waiting  = "{floor}:waiting"  // list: their ids, the oldest first
	wake     = "{floor}:wake"     // list: an element when an order found no other waiting
)

const schema = `CREATE TABLE IF NOT EXISTS orders (
	order_id uuid PRIMARY KEY, sale text NOT NULL, item text NOT NULL, buyer text NOT NULL, unit integer NOT NULL, accepted_at timestamptz NOT NULL,
	UNIQUE (sale, item, buyer), UNIQUE (sale, item, unit))`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	role := flags.String("role", "", "api or worker")
	listen := flags.String("listen", "127.0.0.1:8080", "address of the API")
	redisURL := flags.String("redis", "redis://127.0.0.1:6379", "URL of Redis")
	database := flags.String("database", "", "URL of Postgres")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options, err := redis.ParseURL(*redisURL)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	options.MaxRetries = -1 // a script that runs twice takes or drops other orders
	rdb := redis.NewClient(options)
	defer rdb.Close()
	pool, err := pgxpool.New(ctx, *database)
	if err != nil {
		return fmt.Errorf("-database: %w", err)
	}
	defer pool.Close()
	switch *role {
	case "api":
		if _, err := pool.Exec(ctx, schema); err != nil {
			return err
		}
		return serve(ctx, *listen, rdb)
	case "worker":
		return work(ctx, rdb, pool)
	}
	return errors.New("-role must be api or worker")
}
