package semaphoreasynq

import (
	"context"
	"embed"
	"time"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/internal/redisscript"
)

//go:embed wake.lua
var files embed.FS

var wakeScript = redisscript.Repeatable("semaphore wake", redisscript.Join(files, "wake"))

const (
	maxCandidates = 20          // candidates examined to wake one task
	wakeTimeout   = time.Second // timeout for Asynq's Redis
)

// wake wakes the task of the backlog that has waited longest and has not been woken. If none can be woken, the tasks return when
// their delay ends.
func (l *limiter) wake(ctx context.Context) {
	now := time.Now()
	ids := l.backlog.longest(maxCandidates, now)
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeTimeout)
	defer cancel()
	// RunTask of Asynq's Inspector is unsuitable: it would also run completed, archived or scheduled tasks.
	queue := ids[0].queue
	keys, args := []string{asynqkeys.Key(queue, "retry"), asynqkeys.Pending(queue)}, []any{now.UnixNano()}
	for _, id := range ids {
		keys, args = append(keys, asynqkeys.Key(queue, "t:"+id.id)), append(args, id.id)
	}
	reply := wakeScript.Run(ctx, l.opts.Queue, keys, args...)
	for i := 0; reply.Len() > 0 && i < len(ids); i++ {
		switch reply.Text() {
		case "woken":
			l.backlog.woken(ids[i], now)
		case "gone":
			l.backlog.drop(ids[i])
		}
	}
}
