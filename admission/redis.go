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

// A Client is the one method of a go-redis client that a RedisStore needs. It must not return before the command has been answered, so a
// deferred auto-pipeline is not a Client.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

const (
	batchSize  = 96 // calls in one script: take Redis half a millisecond
	maxSenders = 3  // concurrent scripts: the next ones are packed while Redis works
)

// ErrTooMany means that too many calls are waiting for Redis for another one to be answered in time.
var ErrTooMany = batch.ErrFull

// A RedisStore keeps counts in Redis 6.2 or newer. Make it with NewRedisStore; it is safe for concurrent use.
//
// On a single server one script decides a request, and concurrent requests share one script, see batches. On a Redis Cluster the counters
// of one subject share a slot. There is one script per slot, run one after the other. If a slot refuses, the earlier ones are refunded.
// Until then another request may see a count that is later taken back, and be refused although there was room. A limit is never exceeded.
type RedisStore struct {
	rdb     Client
	batches *batch.Batcher[Call, counted] // nil: keys of several slots need several scripts
	now     func() int64                  // µs; nil means Redis' own clock; set only in tests
	maxBans int                           // 0 means MaxBans
	skew    atomic.Int64                  // estimated offset of Redis' clock from this machine's, in ns
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a store on rdb, which the caller closes. It sends nothing. Open the client with package
// redisclient; on a Redis Cluster use its Batched view, so that concurrent requests share round trips.
func NewRedisStore(rdb Client) *RedisStore {
	s := &RedisStore{rdb: rdb}
	if spreads(rdb) {
		return s
	}
	if p, ok := rdb.(wrapper); ok {
		s.rdb = p.Unwrap() // batches are shared already, a pipeline adds nothing
	}
	s.batches = batch.New(batchSize, maxSenders, s.run)
	return s
}

// wrapper is a view of a client, such as an auto-pipeline.
type wrapper interface{ Unwrap() redis.UniversalClient }

// spreads reports whether rdb distributes keys over several servers, so that one script cannot use keys of two slots.
func spreads(rdb Client) bool {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return true
	case wrapper:
		return spreads(rdb.Unwrap())
	}
	return false
}

// Decide implements Store. It returns the client's errors, and ctx's error when ctx ends; a later reply of Redis is dropped.
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

// within returns the result of do, or ctx's error if ctx ends first. An auto-pipeline ignores contexts, and an ordinary client uses its
// own timeouts; the goroutine ends with those.
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

// A counted is Redis' reply to a call.
type counted struct {
	counts []Count
	known  []bool // see decodeCounts
}

type asked = batch.Call[Call, counted]

// one decides a call whose keys are in one slot.
func (s *RedisStore) one(ctx context.Context, call Call) *asked {
	a := &asked{In: call}
	s.run(ctx, []*asked{a})
	return a
}

// maxTurns is how often a call with wrong calendar spans is sent. Two are enough unless a span ends at that moment.
const maxTurns = 3

// run decides calls in one script. Calls with spans that do not contain Redis' time are sent again with corrected spans.
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

// A subscriber is a Client that supports Pub/Sub.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// listenQuiet is how long a subscription may be silent before it is pinged.
const listenQuiet = 5 * time.Second

// Listen implements Store. On a Client without Pub/Sub it only waits. The error is the connection's.
func (s *RedisStore) Listen(ctx context.Context, channel string, heard func(subject string)) error {
	client, ok := s.rdb.(subscriber)
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
