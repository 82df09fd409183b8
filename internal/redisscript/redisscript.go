// Package redisscript makes all Lua scripts, sends those that must not run twice, and listens to channels.
package redisscript

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Script is a Lua script that is never sent again after it may have run, because a second run would count twice. Make it with New.
type Script struct{ source, hash string }

// New returns a script with this source. It changes nothing if the user of the connection may not run one of its commands. reads are the
// commands that it may read with after its first write.
func New(source string, reads ...string) Script {
	source = guarded(source, reads)
	return Script{source, redis.NewScript(source).Hash()}
}

// Run runs the script with keys, which must be in one slot, and args; the reply must be a list. The error is the client's, or the
// script's.
func (s Script) Run(ctx context.Context, rdb Client, keys []string, args ...any) ([]any, error) {
	command := make([]any, 3, 3+len(keys)+len(args))
	for _, key := range keys {
		command = append(command, key)
	}
	command[2] = len(keys)
	return s.Do(ctx, rdb, append(command, args...))
}

// Do fills in the first two elements of command, an EVALSHA, and sends it; the reply must be a list.
func (s Script) Do(ctx context.Context, rdb Client, command []any) ([]any, error) {
	command[0], command[1] = "evalsha", s.hash
	reply, err := send(ctx, rdb, command)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // the script did not run: Redis restarted or failed over
		command[0], command[1] = "eval", s.source
		reply, err = send(ctx, rdb, command)
	}
	return reply, err
}

// A once is a command that go-redis must not retry. A cluster client ignores MaxRetries: -1: it retries after a timeout, and a script
// that ran the first time would count twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func send(ctx context.Context, rdb Client, args []any) ([]any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		lookAround(ctx, rdb, err)
		return nil, err
	}
	return cmd.Slice()
}

// lookAround makes a cluster client reload the topology if err is not a reply of Redis: a replica may have replaced a failed master. The
// client itself reloads once a minute, and before a retry, which is disabled here.
func lookAround(ctx context.Context, rdb Client, err error) {
	var answer redis.Error
	if c, ok := Unwrap(rdb).(*redis.ClusterClient); ok && !errors.As(err, &answer) {
		c.ReloadState(ctx) // in the background, at most five times a second
	}
}

// Within returns the result of do, or ctx's error if ctx ends first. An auto-pipeline ignores contexts, and an ordinary client uses its
// own timeouts; the goroutine ends with those.
func Within[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// A subscriber is a Client that supports Pub/Sub.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// listenQuiet is how long a subscription may be silent before it is pinged.
const listenQuiet = 5 * time.Second

// Listen calls heard with every message on a channel until ctx ends; it then returns nil. An empty message means that messages may have
// been missed. On a Client without Pub/Sub it only waits. The error is the connection's.
func Listen(ctx context.Context, rdb Client, channel string, heard func(message string)) error {
	client, ok := rdb.(subscriber)
	if !ok {
		<-ctx.Done()
		return nil
	}
	sub := client.Subscribe(ctx, channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })() // reading ignores ctx
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(context.WithoutCancel(ctx), listenQuiet)
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
			heard("")
		case *redis.Message:
			heard(m.Payload)
		}
	}
}

// A Client is the one method of a go-redis client that scripts need. It must not return before the command has been answered, so a
// deferred auto-pipeline is not a Client.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Unwrap returns the client under a view such as an auto-pipeline, or rdb.
func Unwrap(rdb Client) Client {
	if view, ok := rdb.(interface{ Unwrap() redis.UniversalClient }); ok {
		return Unwrap(view.Unwrap())
	}
	return rdb
}

// Spreads reports whether rdb distributes keys over several servers, so that one script cannot use keys of two slots.
func Spreads(rdb Client) bool {
	switch Unwrap(rdb).(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	}
	return false
}
