package serve

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// trips counts the round trips of a client: commands that share one count once. It implements redis.Hook.
type trips struct{ n atomic.Uint64 }

// DialHook implements redis.Hook.
func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

// ProcessHook implements redis.Hook.
func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmds)
	}
}
