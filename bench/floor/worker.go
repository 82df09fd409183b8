package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const (
	takeMost = 500
	gather   = 100 // fewer are worth a pause
	pause    = 5 * time.Millisecond
	idle     = time.Second // of a wait for the next order

	insert = `INSERT INTO orders (order_id, sale, item, buyer, unit, accepted_at)
		SELECT id, $1, $2, buyer, unit, to_timestamp(at / 1000.0) FROM unnest($3::uuid[], $4::text[], $5::integer[], $6::bigint[]) AS o(id, buyer, unit, at)
		ON CONFLICT DO NOTHING`
)

var (
	take = redis.NewScript(`local ids = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
		return #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}`)
	done = redis.NewScript(`redis.call('LTRIM', KEYS[1], #ARGV, -1) redis.call('HDEL', KEYS[2], unpack(ARGV))`)
)

// work writes accepted orders until ctx ends. It is the only worker.
func work(ctx context.Context, rdb *redis.Client, pool *pgxpool.Pool) error {
	keys := []string{waiting, accepted}
	for ctx.Err() == nil {
		records, err := take.Run(ctx, rdb, keys, takeMost).StringSlice()
		if err != nil {
			return fmt.Errorf("take: %w", err)
		}
		if len(records) > 0 {
			var orders []order
			if err := json.Unmarshal([]byte("["+strings.Join(records, ",")+"]"), &orders); err != nil {
				return err
			}
			if err := write(ctx, pool, orders); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			ids := make([]any, len(orders))
			for i, o := range orders {
				ids[i] = o.ID
			}
			if err := done.Run(ctx, rdb, keys, ids...).Err(); err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("done: %w", err)
			}
		}
		switch {
		case len(records) == 0:
			if err := rdb.BLPop(ctx, idle, wake).Err(); err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("wait: %w", err)
			}
		case len(records) < gather:
			time.Sleep(pause)
		}
	}
	return nil
}

// write writes orders of one item.
func write(ctx context.Context, pool *pgxpool.Pool, orders []order) error {
	n := len(orders)
	ids, names, units, at := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, o := range orders {
		ids[i], names[i], units[i], at[i] = o.ID, o.Buyer, o.Unit, o.At
	}
	_, err := pool.Exec(ctx, insert, orders[0].Sale, orders[0].Item, ids, names, units, at)
	return err
}
