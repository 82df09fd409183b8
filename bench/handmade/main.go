// Command handmade is a flash sale that a team could assemble in a week from libraries that Tidegate uses too: Echo, a limiter on Redis,
// a script that decrements stock and records buyers, an Asynq task for each order, and a worker that writes an order and its stock row.
// It is the baseline of the suite orders, with weaker guarantees: orders lost by Redis or the queue are lost.
//
//	handmade -role api    -listen 127.0.0.1:8080 -redis redis://… -database postgres://…
//	handmade -role worker -redis redis://… -database postgres://…
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

//go:embed schema.sql
var schema string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "handmade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("handmade", flag.ContinueOnError)
	role := flags.String("role", "", "api or worker")
	listen := flags.String("listen", "127.0.0.1:8080", "address of the API")
	redisURL := flags.String("redis", "redis://127.0.0.1:6379", "URL of Redis")
	oneStatement := flags.Bool("one-statement", false, "write an order and its unit with one statement in the place of a transaction")
	database := flags.String("database", "", "URL of Postgres")
	if err := flags.Parse(args); err != nil {
		return err
	}
	redisOptions, err := redis.ParseURL(*redisURL)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	redisOptions.PoolSize = 64 // the number of concurrent calls in a rush
	rdb := redis.NewClient(redisOptions)
	defer rdb.Close()
	pgOptions, err := pgxpool.ParseConfig(*database)
	if err != nil {
		return fmt.Errorf("-database: %w", err)
	}
	pgOptions.MaxConns = concurrency
	pool, err := pgxpool.NewWithConfig(ctx, pgOptions)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch *role {
	case "api":
		if _, err := pool.Exec(ctx, schema); err != nil {
			return err
		}
		return serve(ctx, *listen, rdb, pool)
	case "worker":
		return work(ctx, rdb, pool, *oneStatement)
	}
	return errors.New("-role must be api or worker")
}
