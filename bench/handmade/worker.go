package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// concurrency is how many orders are written concurrently.
const concurrency = 16

const (
	insertOrder = `INSERT INTO orders (order_id, sale, item, buyer, status) VALUES ($1, $2, $3, $4, 'confirmed') ON CONFLICT (order_id) DO NOTHING`
	takeUnit    = `UPDATE stock SET sold = sold + 1 WHERE sale = $1 AND item = $2`

	// both takes one round trip, and locks the stock row only for the duration of the commit.
	both = `
WITH placed AS (
    INSERT INTO orders (order_id, sale, item, buyer, status) VALUES ($1, $2, $3, $4, 'confirmed')
    ON CONFLICT (order_id) DO NOTHING
    RETURNING sale, item
)
UPDATE stock SET sold = sold + 1 FROM placed WHERE stock.sale = placed.sale AND stock.item = placed.item`
)

// work writes orders until ctx ends.
func work(ctx context.Context, rdb *redis.Client, pool *pgxpool.Pool, oneStatement bool) error {
	write := inTransaction
	if oneStatement {
		write = atOnce
	}
	srv := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: concurrency, Queues: map[string]int{queue: 1}, LogLevel: asynq.WarnLevel,
		TaskCheckInterval: 50 * time.Millisecond, // the default is a second, which buyers would have to wait
	})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var o task
		if err := json.Unmarshal(t.Payload(), &o); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		return write(ctx, pool, o)
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	srv.Shutdown()
	return nil
}

// inTransaction writes an order and takes its unit. It is idempotent.
func inTransaction(ctx context.Context, pool *pgxpool.Pool, o task) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertOrder, o.OrderID, o.Sale, o.Item, o.Buyer)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, takeUnit, o.Sale, o.Item)
		return err
	})
}

func atOnce(ctx context.Context, pool *pgxpool.Pool, o task) error {
	_, err := pool.Exec(ctx, both, o.OrderID, o.Sale, o.Item, o.Buyer)
	return err
}
