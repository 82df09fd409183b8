package serve

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/pubsub"
)

// roomChanges notifies the processes of an installation of turns given and rooms changed. It only saves time: without Redis they
// read the rooms every 0.2 seconds, or every second while all rooms rest.
type roomChanges struct {
	rdb     redis.UniversalClient
	channel string
	process string // identifies its own notifications
	changed chan struct{}
	log     *slog.Logger
}

func newRoomChanges(rdb redis.UniversalClient, namespace string, log *slog.Logger) *roomChanges {
	return &roomChanges{rdb: rdb, channel: namespace + ":rooms", process: rand.Text(), changed: make(chan struct{}, 1), log: log}
}

// notify makes publish send a notice. It does not block.
func (c *roomChanges) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// publish sends notices until ctx ends.
func (c *roomChanges) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.changed:
			if err := c.rdb.Publish(ctx, c.channel, c.process).Err(); err != nil {
				c.log.DebugContext(ctx, "a change of a waiting room could not be published", slog.Any("error", err))
			}
		}
	}
}

// listen calls wake after notices of other processes, and when some may have been missed, until ctx ends.
func (c *roomChanges) listen(ctx context.Context, wake func()) error {
	return pubsub.Follow(ctx, time.Second, func() error {
		return pubsub.Listen(ctx, c.rdb.Subscribe, []string{c.channel}, func(process string) {
			if process != c.process {
				wake()
			}
		})
	}, func(err error) { c.log.DebugContext(ctx, "no notices of waiting rooms", slog.Any("error", err)) })
}
