package admission

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A Client is the one method of a go-redis client that a RedisStore needs. It must return when the command has been
// answered, so the deferred face of an auto-pipeline is not one.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A RedisStore keeps counts in Redis 6.2 or newer. Make it with NewRedisStore; it is safe for concurrent use.
//
// On a single server one script decides a request. On a Redis Cluster the counters of one subject share a slot and
// there is one script per slot, one after the other. A slot that refuses has the earlier ones refunded; in between, another
// request may meet a count that is then taken back, and be refused though there was room. Never is more admitted than a limit.
type RedisStore struct {
	rdb     Client
	perSlot bool         // keys of several slots need several scripts
	now     func() int64 // µs; nil, except in tests, for Redis' own clock
	maxBans int          // 0 means MaxBans
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a store on rdb, which stays the caller's to close. It sends nothing. Give the client the settings of
// RedisOptions; to share round trips among concurrent requests wrap it by AutoPipeline.
func NewRedisStore(rdb Client) *RedisStore {
	return &RedisStore{rdb: rdb, perSlot: spreads(rdb)}
}

// Decide implements Store. It returns the client's errors, and ctx's when that ends: what Redis answers later is dropped.
func (s *RedisStore) Decide(ctx context.Context, call Call) ([]Count, error) {
	mode, tallies := call.Mode, call.Tallies
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type answer struct {
		counts []Count
		err    error
	}
	// An auto-pipeline heeds no context, and an ordinary client waits for its own time-outs; hence the wait beside it.
	// The goroutine ends with the client's time-outs.
	done := make(chan answer, 1)
	go func() {
		counts, err := s.decide(ctx, mode, tallies)
		done <- answer{counts, err}
	}()
	select {
	case a := <-done:
		return a.counts, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *RedisStore) decide(ctx context.Context, mode Mode, tallies []Tally) ([]Count, error) {
	if s.perSlot {
		return s.decideBySlot(ctx, mode, tallies)
	}
	return s.run(ctx, mode, tallies)
}

// run decides tallies in one script.
func (s *RedisStore) run(ctx context.Context, mode Mode, tallies []Tally) ([]Count, error) {
	now := int64(0)
	if s.now != nil {
		now = s.now()
	}
	return decide(ctx, s.rdb, mode, now, tallies)
}

// Listen implements Store.
func (s *RedisStore) Listen(ctx context.Context, _ string, _ func(string)) error {
	<-ctx.Done()
	return nil
}
