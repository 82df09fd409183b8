package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
)

// quiet is how long a subscription may be silent before it is pinged.
const quiet = 3 * time.Second

// A Subscribe is the method Subscribe or SSubscribe of a client.
type Subscribe func(ctx context.Context, channels ...string) *redis.PubSub

// Of returns the Subscribe of a client, or nil if it has none.
func Of(client any) Subscribe {
	if c, ok := client.(interface {
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}); ok {
		return c.Subscribe
	}
	return nil
}

// Listen calls received with every message on some channels until ctx ends; it then returns nil. An empty message means that messages may
// have been missed. received is called by one goroutine at a time; while it blocks, messages wait in Redis. Without a Subscribe it only
// waits. The error is the connection's.
func Listen(ctx context.Context, subscribe Subscribe, channels []string, received func(message string)) error {
	if subscribe == nil {
		<-ctx.Done()
		return nil
	}
	sub := subscribe(ctx, channels...)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })() // reading ignores ctx
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(context.WithoutCancel(ctx), quiet)
		var late net.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			asked = false
		case errors.As(err, &late) && late.Timeout() && !asked:
			asked = true
			err = sub.Ping(context.WithoutCancel(ctx))
		}
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		switch m := message.(type) {
		case *redis.Subscription:
			if m.Count == 0 { // the channel's slot has moved to another server
				return errors.New("listen: the server has ended the subscription")
			}
			received("")
		case *redis.Message:
			received(m.Payload)
		}
	}
}

// Follow calls listen again and again until ctx ends, and returns ctx's error. It passes errors of listen to failed, and pauses after
// each.
func Follow(ctx context.Context, pause time.Duration, listen func() error, failed func(error)) error {
	for ctx.Err() == nil {
		if err := listen(); err != nil && ctx.Err() == nil {
			failed(err)
			periodic.Pause(ctx, pause)
		}
	}
	return ctx.Err()
}
