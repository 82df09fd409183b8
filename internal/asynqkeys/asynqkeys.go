// Package asynqkeys reads the queues of Asynq from its keys, which are those of its internal/base: its Inspector finds no queues after
// Redis lost its data, takes no context, and reads far more.
package asynqkeys

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Queues is the set of all queues.
const Queues = "asynq:queues"

// Key returns a key of a queue, such as that of a state of tasks.
func Key(queue, part string) string { return "asynq:{" + queue + "}:" + part }

// Pending returns the key of the list that workers take the tasks of a queue from.
func Pending(queue string) string { return Key(queue, "pending") }

// Count adds commands to p that count the tasks of a queue by state: pending, active, scheduled, retry and archived.
func Count(ctx context.Context, p redis.Pipeliner, queue string) map[string]*redis.IntCmd {
	counts := make(map[string]*redis.IntCmd, 5)
	for _, list := range []string{"pending", "active"} {
		counts[list] = p.LLen(ctx, Key(queue, list))
	}
	for _, set := range []string{"scheduled", "retry", "archived"} {
		counts[set] = p.ZCard(ctx, Key(queue, set))
	}
	return counts
}
