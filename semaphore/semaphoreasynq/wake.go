package semaphoreasynq

import (
	"context"
	_ "embed" // of wake.lua
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed wake.lua
var wakeText string

var wakeScript = redis.NewScript(wakeText)

const (
	atOnce   = 20          // tasks are looked at to wake one
	patience = time.Second // with Asynq's Redis
)

// wake wakes the task that is longest in the line and not awake. That nobody was woken is no error: tasks come by themselves.
func (l *limiter) wake(ctx context.Context) {
	now := time.Now()
	ids := l.line.next(atOnce, now)
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	// Asynq's own keys, as in its internal/base. Its Inspector has RunTask, which would also run what is done, archived or scheduled.
	prefix := "asynq:{" + ids[0].queue + "}:"
	keys, args := []string{prefix + "retry", prefix + "pending"}, []any{now.UnixNano()}
	for _, id := range ids {
		keys, args = append(keys, prefix+"t:"+id.id), append(args, id.id)
	}
	replies, err := wakeScript.Run(ctx, l.opts.Queue, keys, args...).StringSlice()
	if err != nil {
		return
	}
	for i, word := range replies {
		switch word {
		case "woken":
			l.line.wake(ids[i], now)
		case "gone":
			l.line.leave(ids[i])
		}
	}
}
