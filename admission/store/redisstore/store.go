package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/internal/redisscript"
)

const (
	batchSize  = 96               // calls in one script: take Redis half a millisecond
	maxWindows = 256              // windows of all calls in one script, unless one call has more; Redis does nothing else meanwhile
	maxSenders = 3                // concurrent scripts: the next ones are packed while Redis works
	rest       = time.Millisecond // between scripts, while it pays
	enough     = 16               // calls that do not wait for the end of a rest
)

// A Store keeps counts in Redis 6.2 or newer. Make it with New; it is safe for concurrent use.
//
// On a single server one script decides a request, and concurrent requests share one script, see batches. On a Redis Cluster the counters
// of one subject share a slot. There is one script per slot, run one after the other. If a slot refuses, the earlier ones are refunded.
// Until then another request may see a count that is later taken back, and be refused although there was room. A limit is never exceeded.
type Store struct {
	rdb     redisscript.Client
	batches *batch.Batcher[store.Call, counted] // nil: keys of several slots need several scripts
	now     func() int64                        // µs; nil means Redis' own clock; set only in tests
	bans    *bans.RedisStore
	skew    atomic.Int64 // estimated offset of Redis' clock from this machine's, in ns
}

var _ store.Store = (*Store)(nil)

// New returns a store on rdb, which the caller closes. It sends nothing. Create the client with redisclient.Open; for a
// Redis Cluster pass its Batched, so that concurrent requests share round trips.
func New(rdb redisscript.Client) *Store {
	if redisscript.Spreads(rdb) {
		return &Store{rdb: rdb, bans: bans.NewRedisStore(rdb)}
	}
	// Batches are shared already, so a pipeline adds nothing, and the scripts of bans would hold up the orders that share it.
	rdb = redisscript.Unwrap(rdb)
	s := &Store{rdb: rdb, bans: bans.NewRedisStore(rdb)}
	s.batches = batch.New(batchSize, maxSenders, s.run).Weigh(maxWindows, func(c store.Call) int { return len(c.Tallies) }).Rest(rest, enough)
	return s
}

// SetClock makes the scripts take their time from now instead of Redis. It is for tests, before the first call.
func (s *Store) SetClock(now func() time.Time) {
	s.now = func() int64 { return now().UnixMicro() }
}

// Decide implements store.Store. It returns the client's errors, and ctx's error when ctx ends; a later reply of Redis is dropped.
func (s *Store) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.batches != nil {
		a, err := s.batches.Do(ctx, call)
		return a.counts, err
	}
	return redisscript.Within(ctx, func() ([]store.Count, error) { return s.decideBySlot(ctx, call) })
}

// A counted is Redis' reply to a call.
type counted struct {
	counts []store.Count
	known  []bool // see decodeCounts
}

type asked = batch.Call[store.Call, counted]

// one decides a call whose keys are in one slot.
func (s *Store) one(ctx context.Context, call store.Call) *asked {
	a := &asked{In: call}
	s.run(ctx, []*asked{a})
	return a
}

// maxTurns is how often a call with wrong calendar spans is sent. Two are enough unless a span ends at that moment.
const maxTurns = 3

// run decides calls in one script. Calls with spans that do not contain Redis' time are sent again with corrected spans.
func (s *Store) run(ctx context.Context, calls []*asked) {
	about := time.Now().Add(time.Duration(s.skew.Load()))
	for turn := 1; len(calls) > 0; turn++ {
		now := int64(0)
		if s.now != nil {
			now = s.now()
		}
		reply := runScript(ctx, s.rdb, calls, now, about)
		_ = reply.Expect(len(calls))
		var again []*asked
		for _, a := range calls {
			value := reply.Next()
			if a.Err = reply.Err(); a.Err != nil {
				continue
			}
			a.Out.counts, a.Out.known, a.Err = decodeCounts(value, len(a.In.Tallies))
			if wrong, ok := errors.AsType[wrongSpan](a.Err); ok && turn < maxTurns {
				s.skew.Store(int64(time.Until(wrong.now)))
				about = wrong.now // not the skew: calls to a node with another clock may have changed it
				again = append(again, a)
			}
		}
		calls = again
	}
}

// Bans implements store.Store.
func (s *Store) Bans() bans.Store { return s.bans }

// Listen implements store.Store. On a Client without Pub/Sub it only waits. The error is the connection's.
func (s *Store) Listen(ctx context.Context, channel string, receive func(subject string)) error {
	if err := pubsub.Listen(ctx, pubsub.Of(s.rdb), []string{channel}, receive); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}
