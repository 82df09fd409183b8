package semaphoreasynq

import (
	"context"
	_ "embed" // of wake.lua
	"time"

	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed wake.lua
var wakeText string

var wakeScript = redisscript.Repeatable(wakeText)

const (
	maxCandidates = 20          // candidates examined to wake one task
	wakeTimeout   = time.Second // timeout for Asynq's Redis
)

// wake wakes the task of the backlog that has waited longest and has not been woken. If none can be woken, the tasks return when their delay ends.
func (l *limiter) wake(ctx context.Context) {
	now := time.Now()
	ids := l.backlog.longest(maxCandidates, now)
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeTimeout)
	defer cancel()
	// Asynq's own keys, as in its internal/base. RunTask of its Inspector is unsuitable: it would also run completed, archived or
	// scheduled tasks.
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
			l.backlog.woken(ids[i], now)
		case "gone":
			l.backlog.drop(ids[i])
		}
	}
}
