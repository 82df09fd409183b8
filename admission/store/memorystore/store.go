package memorystore

import (
	"context"
	"hash/maphash"
	"runtime"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/pubsub"
)

// Options of a Store.
type Options struct {
	// MaxSubjects is how many counters are kept at once. A counter is one subject in one window of one rule. Zero means 262,144. A
	// counter takes about 250 bytes, plus 8 to 16 for each unit of a sliding log. In addition the same number of answers to requests with
	// an id is kept, about 250 bytes each. A single request may exceed the capacity of a small store.
	MaxSubjects int
	// Now is the clock. Nil means real time at the start of the store, followed by the monotonic clock of the process. For tests.
	Now func() time.Time
}

const defaultMaxSubjects = 1 << 18

// A Store keeps counts in this process. Make it with New; it is safe for concurrent use.
//
// The counters are distributed over shards by a hash. When a shard is full, ended counters make room. If all still count, the new counter
// evicts one of 16 random counters: the one that has used the smallest share of its limit, and among equal ones the one that ends first.
// So every admitted request is counted, memory stays bounded, and a flood of invented subjects evicts its own counters first: a counter
// at its limit is evicted only if all 16 are at theirs. The remaining weaknesses:
//   - If more subjects than the store holds reach their limit within one window, some other subjects start from zero.
//   - While the store is full, a subject that returns less often than its shard is refilled is hardly limited.
//   - Answers to requests with an id are evicted like counters that used nothing: a resend may be charged again.
//
// Bans are kept separately and are never evicted. Stats.Evicted is the number of counters that still counted when they were
// dropped.
type Store struct {
	shards   []shard
	cleaners []cleaner
	seed     maphash.Seed
	now      func() int64 // µs
	hub      pubsub.Hub
	bans     *bans.MemoryStore
}

var _ store.Store = (*Store)(nil)

// New returns an empty store. It starts no goroutine: see Run.
func New(opts Options) *Store {
	if opts.MaxSubjects <= 0 {
		opts.MaxSubjects = defaultMaxSubjects
	}
	n := 1
	for n < maxShards && n*minShard < opts.MaxSubjects {
		n *= 2
	}
	s := &Store{shards: make([]shard, n), seed: maphash.MakeSeed()}
	if opts.Now != nil {
		s.now = func() int64 { return opts.Now().UnixMicro() }
	} else {
		start := time.Now()
		began := start.UnixMicro()
		s.now = func() int64 { return began + time.Since(start).Microseconds() }
	}
	s.bans = bans.NewMemoryStore(func() time.Time { return time.UnixMicro(s.now()) })
	for i := range s.shards {
		s.shards[i].number = i
		s.shards[i].room = (opts.MaxSubjects + n - 1) / n
	}
	s.cleaners = make([]cleaner, min(n, runtime.GOMAXPROCS(0)))
	for i := range s.cleaners {
		c := &s.cleaners[i]
		c.shards = s.shards[i*n/len(s.cleaners) : (i+1)*n/len(s.cleaners)]
		c.done.Store(s.now())
	}
	return s
}

// id returns the ID of the counter with this key; it is not 0.
func (s *Store) id(key string) counterID { return counterID(max(1, maphash.String(s.seed, key))) }

// Decide implements store.Store. It never fails.
func (s *Store) Decide(_ context.Context, call store.Call) ([]store.Count, error) {
	counts := room(&call)
	var few [4]entry // room for the entries of most calls
	t := lockedCall{store: s, call: &call, counts: counts, entries: few[:0]}
	for i := range call.Tallies {
		id := s.id(call.Tallies[i].Key)
		t.entries = append(t.entries, entry{id: id, shard: &s.shards[uint64(id)&uint64(len(s.shards)-1)]})
	}
	t.runLocked()
	if call.Channel != "" && (call.Mode == store.Refund || call.Mode == store.Reset || call.Mode == store.Erase) {
		for i := range call.Tallies {
			if subject := call.Tallies[i].Subject; !hasSubject(call.Tallies[:i], subject) {
				s.hub.Publish(call.Channel, subject)
			}
		}
	}
	return counts, nil
}

// Bans implements store.Store.
func (s *Store) Bans() bans.Store { return s.bans }

// Listen implements store.Store.
func (s *Store) Listen(ctx context.Context, channel string, receive func(subject string)) error {
	return s.hub.Listen(ctx, channel, receive)
}

// room returns a zero count for each tally.
func room(call *store.Call) []store.Count {
	if n := len(call.Tallies); n <= cap(call.Room) {
		counts := call.Room[:n]
		clear(counts)
		return counts
	}
	return make([]store.Count, len(call.Tallies))
}

// hasSubject reports whether one of the tallies has this subject.
func hasSubject(tallies []store.Tally, subject string) bool {
	for i := range tallies {
		if tallies[i].Subject == subject {
			return true
		}
	}
	return false
}
