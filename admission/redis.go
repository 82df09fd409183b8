package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
)

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
	rdb     redisscript.Client
	batches *batch.Batcher[Call, counted] // nil: keys of several slots need several scripts
	now     func() int64                  // µs; nil means Redis' own clock; set only in tests
	bans    *bans.RedisStore
	skew    atomic.Int64 // estimated offset of Redis' clock from this machine's, in ns
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a store on rdb, which the caller closes. It sends nothing. Create the client with redisclient.Open; for a
// Redis Cluster pass its Batched, so that concurrent requests share round trips.
func NewRedisStore(rdb redisscript.Client) *RedisStore {
	if redisscript.Spreads(rdb) {
		return &RedisStore{rdb: rdb, bans: bans.NewRedisStore(rdb)}
	}
	// Batches are shared already, so a pipeline adds nothing, and the scripts of bans would hold up the orders that share it.
	rdb = redisscript.Unwrap(rdb)
	s := &RedisStore{rdb: rdb, bans: bans.NewRedisStore(rdb)}
	s.batches = batch.New(batchSize, maxSenders, s.run)
	return s
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
	return redisscript.Within(ctx, func() ([]Count, error) { return s.decideBySlot(ctx, call) })
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

// Bans implements Store.
func (s *RedisStore) Bans() bans.Store { return s.bans }

// Listen implements Store. On a Client without Pub/Sub it only waits. The error is the connection's.
func (s *RedisStore) Listen(ctx context.Context, channel string, heard func(subject string)) error {
	if err := redisscript.Listen(ctx, s.rdb, channel, heard); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}
