package redisscript

import (
	"context"

	"github.com/redis/go-redis/v9"
)

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
	}
	select {
	case a := <-done: // both at once
		return a.value, a.err
	default:
		var none T
		return none, ctx.Err()
	}
}
