package admission

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/batch"
)

// A Client is the one method of a go-redis client that a RedisStore needs. It must return when the command has been
// answered, so the deferred face of an auto-pipeline is not one.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

const (
	batchSize  = 96 // calls in one script: half a millisecond of Redis' time
	maxSenders = 3  // scripts under way: the next ones are packed while Redis works
)

// ErrTooMany means that so many calls wait for Redis that a further one would wait in vain.
var ErrTooMany = batch.ErrFull

// A RedisStore keeps counts in Redis 6.2 or newer. Make it with NewRedisStore; it is safe for concurrent use.
//
// On a single server one script decides a request, and those that wait at the same time share one script, see batches. On a Redis
// Cluster the counters of one subject share a slot and there is one script per slot, one after the other. A slot that refuses has
// the earlier ones refunded; in between, another request may meet a count that is then taken back, and be refused though there was
// room. Never is more admitted than a limit.
type RedisStore struct {
	rdb     Client
	batches *batch.Batcher[Call, counted] // nil: keys of several slots need several scripts
	now     func() int64                  // µs; nil, except in tests, for Redis' own clock
	maxBans int                           // 0 means MaxBans
	skew    atomic.Int64                  // ns by which Redis' clock is ahead of this machine's, as far as known
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a store on rdb, which stays the caller's to close. It sends nothing. Give the client the settings of
// RedisOptions; for a Redis Cluster wrap it by AutoPipeline, so that concurrent requests share round trips.
func NewRedisStore(rdb Client) *RedisStore {
	s := &RedisStore{rdb: rdb}
	if spreads(rdb) {
		return s
	}
	if p, ok := rdb.(*pipeline); ok {
		s.rdb = p.rdb // what travels together already gains nothing by a pipeline
	}
	s.batches = batch.New(batchSize, maxSenders, s.run)
	return s
}

// Decide implements Store. It returns the client's errors, and ctx's when that ends: what Redis answers later is dropped.
func (s *RedisStore) Decide(ctx context.Context, call Call) ([]Count, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.batches != nil {
		a, err := s.batches.Do(ctx, call)
		return a.counts, err
	}
	return within(ctx, func() ([]Count, error) { return s.decideBySlot(ctx, call) })
}

// within returns what do returns, or ctx's error when that ends first. An auto-pipeline heeds no context, and an ordinary client
// waits for its own time-outs; with those the goroutine ends.
func within[T any](ctx context.Context, do func() (T, error)) (T, error) {
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

// A counted call is what Redis says to it.
type counted struct {
	counts []Count
	known  []bool // see decodeCounts
}

type asked = batch.Call[Call, counted]

// one decides a call whose keys have one slot.
func (s *RedisStore) one(ctx context.Context, call Call) *asked {
	a := &asked{In: call}
	s.run(ctx, []*asked{a})
	return a
}

// maxTurns is how often a call is sent whose spans of the calendar were wrong. Once is enough unless a span ends just then.
const maxTurns = 3

// run decides calls in one script. Those with spans that do not hold Redis' time are sent again with others.
func (s *RedisStore) run(ctx context.Context, calls []*asked) {
	for turn := 1; len(calls) > 0; turn++ {
		now, about := int64(0), time.Now().Add(time.Duration(s.skew.Load()))
		if s.now != nil {
			now = s.now()
		}
		replies, err := runScript(ctx, s.rdb, calls, now, about)
		var again []*asked
		for i, a := range calls {
			if a.Err = err; err != nil {
				continue
			}
			a.Out.counts, a.Out.known, a.Err = decodeCounts(replies[i], len(a.In.Tallies))
			var wrong wrongSpan
			if errors.As(a.Err, &wrong) && turn < maxTurns {
				s.skew.Store(int64(time.Until(wrong.now)))
				again = append(again, a)
			}
		}
		calls = again
	}
}

// A subscriber is a Client that can be told things.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// listenQuiet is how long a subscription may say nothing before it is asked whether it lives.
const listenQuiet = 5 * time.Second

// Listen implements Store. Over a Client that cannot subscribe it only waits. The error is the connection's.
func (s *RedisStore) Listen(ctx context.Context, channel string, heard func(subject string)) error {
	client, ok := s.rdb.(subscriber)
	if !ok {
		<-ctx.Done()
		return nil
	}
	sub := client.Subscribe(ctx, channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })() // reading heeds no context
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
			return fmt.Errorf("admission: listen: %w", err)
		}
		switch m := message.(type) {
		case *redis.Subscription:
			heard("")
		case *redis.Message:
			heard(m.Payload)
		}
	}
}
