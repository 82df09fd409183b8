package semaphoreasynq

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestWakeFaults: one refused command or damaged key. A task stays in one of Asynq's lists.
func TestWakeFaults(t *testing.T) {
	const retry, pending, running, waiting = "{q}:retry", "{q}:pending", "{q}:t:running", "{q}:t:waiting"
	scripttest.Run(t, scripttest.Case{
		Name: "wake",
		Prepare: func(ctx context.Context, rdb *redis.Client) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.ZAdd(ctx, retry, redis.Z{Score: 1, Member: "waiting"}, redis.Z{Score: 2, Member: "other"})
				p.RPush(ctx, pending, "earlier")
				p.HSet(ctx, running, "state", "active", "msg", "")
				p.HSet(ctx, waiting, "state", "retry", "msg", "semaphoreasynq: put back for 1s")
				return nil
			})
			return err
		},
		Call: func(ctx context.Context, rdb *redis.Client) error {
			return wakeScript.Run(ctx, rdb, []string{retry, pending, running, waiting}, 1, "running", "waiting").Err()
		},
	})
}
