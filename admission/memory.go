package admission

import (
	"context"
	"hash/maphash"
	"runtime"
	"time"
)

// MemoryOptions of a MemoryStore.
type MemoryOptions struct {
	// MaxSubjects is how many counters are kept at once, where a counter is one subject in one window of one rule. Zero
	// means 262,144. A counter takes about 250 bytes and 8 to 16 more for each unit of a sliding log. As many
	// answers to requests with an id are kept besides, of about 250 bytes each. One request may exceed a small store by its own.
	MaxSubjects int
	// Now is the clock; nil is the real time at the store's start and the process' monotonic clock from then on. For tests.
	Now func() time.Time
}

const defaultMaxSubjects = 1 << 18

// A MemoryStore keeps counts in this process. Make it with NewMemoryStore; it is safe for concurrent use.
//
// The counters are divided among shards by a hash. When a shard is full, counters whose window has ended make room; if all still
// count, the new one evicts another: of 16 at random, the one that has used the smallest share of its limit, and of equal ones the
// one that ends first. So nobody is admitted without being counted, memory stays bounded, and a crowd of made-up subjects evicts
// its own counters first: who has used up a limit is forgotten only if all 16 have. What remains to an attacker:
//   - With more subjects at their limit than the store holds, within one window, some other subjects begin anew.
//   - While the store is full, a subject that returns more rarely than its shard is filled anew is hardly limited.
//   - Answers to requests with an id are evicted like counters that used nothing: a repeat may be charged again.
//
// Bans are kept apart and are never evicted. MemoryStats.Evicted counts what still counted and was dropped.
type MemoryStore struct {
	shards    []shard
	cleaners  []cleaner
	seed      maphash.Seed
	now       func() int64 // µs
	listeners listeners
	bans      banBooks
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store. It starts nothing: see Run.
func NewMemoryStore(opts MemoryOptions) *MemoryStore {
	if opts.MaxSubjects <= 0 {
		opts.MaxSubjects = defaultMaxSubjects
	}
	n := 1
	for n < maxShards && n*minShard < opts.MaxSubjects {
		n *= 2
	}
	s := &MemoryStore{shards: make([]shard, n), seed: maphash.MakeSeed()}
	if opts.Now != nil {
		s.now = func() int64 { return opts.Now().UnixMicro() }
	} else {
		start := time.Now()
		began := start.UnixMicro()
		s.now = func() int64 { return began + time.Since(start).Microseconds() }
	}
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

// id names the counter of a key; it is not 0.
func (s *MemoryStore) id(key string) counterID { return counterID(max(1, maphash.String(s.seed, key))) }

// Decide implements Store. It never fails.
func (s *MemoryStore) Decide(_ context.Context, call Call) ([]Count, error) {
	counts := call.room()
	var few [4]seat // room for the seats of most calls
	t := turn{store: s, call: &call, counts: counts, seats: few[:0]}
	for i := range call.Tallies {
		id := s.id(call.Tallies[i].Key)
		t.seats = append(t.seats, seat{id: id, shard: &s.shards[uint64(id)&uint64(len(s.shards)-1)]})
	}
	t.take()
	if call.Channel != "" && (call.Mode == Refund || call.Mode == Reset || call.Mode == Erase) {
		for i := range call.Tallies {
			if subject := call.Tallies[i].Subject; !told(call.Tallies[:i], subject) {
				s.tell(call.Channel, subject)
			}
		}
	}
	return counts, nil
}

// told reports whether one of the tallies has this subject.
func told(tallies []Tally, subject string) bool {
	for i := range tallies {
		if tallies[i].Subject == subject {
			return true
		}
	}
	return false
}
