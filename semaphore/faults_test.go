package semaphore

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/redisscript/scripttest"
)

// TestFaults: one refused command or damaged key, for each operation.
func TestFaults(t *testing.T) {
	const prefix = "shop:s:{:}:"
	// run sends operations on two semaphores, as process p.
	run := func(process string, ops ...any) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, rdb *redis.Client) error {
			var keys []string
			for _, name := range []string{"a", "b"} {
				key := prefix + name
				keys = append(keys, key, key+":holders", key+":entries", key+":weights", key+":queue", key+":processes")
			}
			args := append([]any{process, "shop:s:process:", "PUBLISH", 2, "a", "b"}, ops...)
			return script.Run(ctx, rdb, keys, args...).Err()
		}
	}
	const lease = 60e6
	define := []any{doDefine, 1, 2, int(lease), 0, 0, doDefine, 2, 2, int(lease), 0, 0}
	acquire := func(key string, weight, wait, attempt int) []any {
		return []any{doAcquire, key, weight, wait, attempt, "holder", 2, 1, 2}
	}
	var start []any
	for _, ops := range [][]any{define, acquire("k1", 2, 1, 1), acquire("k2", 1, 1, 1), acquire("k3", 1, 1, 1)} {
		start = append(start, ops...)
	}
	prepare := run("p", start...)
	var cases []scripttest.Case
	for name, ops := range map[string][]any{
		"acquire again": acquire("k1", 2, 1, 1),
		"queue":         acquire("k4", 1, 1, 2),
		"try":           acquire("k5", 1, 0, 1),
		"too heavy":     acquire("k2", 9, 1, 1),
		"renew":         {doRenew, "k1", 1, 2, "holder", 2, 1, 2},
		"give up":       {doRelease, "k2", -1, 2, 1, 2},
		"release":       {doRelease, "k1", -1, 2, 1, 2, doStatus, 1, 10, doStatus, 2, 0},
		"requeue":       append([]any{doRelease, "k2", -1, 1, 1}, acquire("k2", 1, 1, 1)...),
		"define":        {doDefine, 1, 3, int(lease) / 2, 0, 0},
		"undefine":      {doDefine, 1, -1, 0, 0, 0},
		"redefine":      {doDefine, 1, -1, 0, 0, 0, doDefine, 1, 2, int(lease), 0, 0},
		"status":        {doStatus, 1, 10},
	} {
		cases = append(cases,
			scripttest.Case{Name: name, Prepare: prepare, Call: run("p", ops...), Heals: true},
			scripttest.Case{Name: name + " of another process", Prepare: prepare, Call: run("q", ops...), Heals: true})
	}
	scripttest.Run(t, append(cases, scripttest.Case{Name: "first", Call: prepare, Heals: true})...)
}
