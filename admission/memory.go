package admission

import (
	"container/list"
	"context"
	"hash/maphash"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"
)

// MemoryOptions of a MemoryStore.
type MemoryOptions struct {
	// MaxSubjects is how many counters are kept at once, where a counter is one subject in one window of one rule. Zero
	// means 262,144. A counter takes about 200 bytes and 8 more for each unit in its window.
	MaxSubjects int
	// Now is the clock; nil is the process' monotonic clock. For tests.
	Now func() time.Time
}

const defaultMaxSubjects = 1 << 18

// A MemoryStore keeps counts in this process. Make it with NewMemoryStore; it is safe for concurrent use. It is sharded by the
// number of CPUs.
//
// When it is full, counters whose window has ended make room. One that still counts is never dropped, because its subject
// would begin anew above its limit: instead, a subject not yet known cannot be counted, and Decide fails with ErrFull, so that
// each rule's `on_store_error` says whether such a subject comes in.
type MemoryStore struct {
	shards []shard
	seed   maphash.Seed
	now    func() int64 // µs
	bans   banBooks
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store. It starts nothing: see Run.
func NewMemoryStore(opts MemoryOptions) *MemoryStore {
	if opts.MaxSubjects <= 0 {
		opts.MaxSubjects = defaultMaxSubjects
	}
	n := 1 << bits.Len(uint(runtime.GOMAXPROCS(0)-1)) // the power of two that is not below
	s := &MemoryStore{shards: make([]shard, n), seed: maphash.MakeSeed()}
	if opts.Now != nil {
		s.now = func() int64 { return opts.Now().UnixMicro() }
	} else {
		start := time.Now()
		s.now = func() int64 { return time.Since(start).Microseconds() }
	}
	for i := range s.shards {
		s.shards[i].counters = map[string]*counter{}
		s.shards[i].queues = map[time.Duration]*list.List{}
		s.shards[i].room = (opts.MaxSubjects + n - 1) / n
	}
	return s
}

// Decide implements Store. It fails only with ErrFull.
func (s *MemoryStore) Decide(_ context.Context, call Call) ([]Count, error) {
	mode, tallies := call.Mode, call.Tallies
	var buf [8]int
	at := buf[:0] // the shard of each tally
	for i := range tallies {
		at = append(at, int(maphash.String(s.seed, tallies[i].Subject)&uint64(len(s.shards)-1)))
	}
	unlock := s.lock(at)
	defer unlock()
	now := s.now()
	if mode == Charge {
		s.clean(tallies, at, now) // before any log is read: it may drop one of these
	}

	counts := make([]Count, len(tallies))
	readings := make([]reading, len(tallies))
	var empty slidingLog
	for i := range tallies {
		t, log := &tallies[i], &empty
		if c := s.shards[at[i]].counters[t.Key]; c != nil {
			log = &c.log
		}
		readings[i] = log.read(now, t.Window.Length, t.Limit, t.Cost)
		counts[i] = readings[i].Count
	}
	if mode != Charge || !fits(tallies, counts) {
		return counts, nil
	}
	if !s.hasRoom(tallies, counts, at) {
		return nil, ErrFull
	}
	for i := range tallies {
		if counts[i].Reason == "" {
			counts[i] = s.shards[at[i]].charge(&tallies[i], readings[i])
		}
	}
	return counts, nil
}

// lock locks the shards at, in their order so that two requests never wait for each other, and returns what unlocks them.
func (s *MemoryStore) lock(at []int) (unlock func()) {
	if len(at) == 1 {
		mu := &s.shards[at[0]].mu
		mu.Lock()
		return mu.Unlock
	}
	order := slices.Clone(at)
	slices.Sort(order)
	order = slices.Compact(order)
	for _, i := range order {
		s.shards[i].mu.Lock()
	}
	return func() {
		for _, i := range order {
			s.shards[i].mu.Unlock()
		}
	}
}

// clean drops counters that ended from the shards of tallies: two from each, so that the store without Run too holds little more than
// what counts, and as many more as new counters need room.
func (s *MemoryStore) clean(tallies []Tally, at []int, now int64) {
	for i, first := range at {
		if slices.Contains(at[:i], first) {
			continue
		}
		sh := &s.shards[first]
		for n := 2; n > 0 && sh.drop(n, now) > 0; {
			n = len(sh.counters) + s.missing(first, tallies, at, nil) - sh.room
		}
	}
}

// hasRoom reports whether every tally that is to be charged has a counter or can have a new one.
func (s *MemoryStore) hasRoom(tallies []Tally, counts []Count, at []int) bool {
	for _, i := range at {
		if n := s.missing(i, tallies, at, counts); n > 0 && len(s.shards[i].counters)+n > s.shards[i].room {
			return false
		}
	}
	return true
}

// missing returns how many tallies of a shard have no counter yet; with counts only those that fit.
func (s *MemoryStore) missing(shard int, tallies []Tally, at []int, counts []Count) (n int) {
	for i := range tallies {
		if at[i] == shard && (counts == nil || counts[i].Reason == "") && s.shards[shard].counters[tallies[i].Key] == nil {
			n++
		}
	}
	return n
}

// A shard holds the counters of some subjects.
type shard struct {
	mu       sync.Mutex
	counters map[string]*counter          // guarded by mu; by key
	queues   map[time.Duration]*list.List // guarded by mu; by window, the counter that ends first in front
	room     int                          // counters at most
	_        [64]byte                     // keeps the locks of two shards off one cache line
}

// A counter is the log of one tally.
type counter struct {
	key   string
	log   slidingLog
	ends  int64 // µs: nothing counts any more from then on
	place *list.Element
}

// charge counts t and puts its counter last in its queue: all counters of a queue have the same window, so the one
// charged last ends last.
func (sh *shard) charge(t *Tally, r reading) Count {
	queue := sh.queues[t.Window.Length]
	if queue == nil {
		queue = list.New()
		sh.queues[t.Window.Length] = queue
	}
	c := sh.counters[t.Key]
	if c == nil {
		c = &counter{key: t.Key}
		c.place = queue.PushBack(c)
		sh.counters[t.Key] = c
	} else {
		queue.MoveToBack(c.place)
	}
	c.ends = r.now + t.Window.Length.Microseconds()
	return c.log.charge(r, t.Window.Length, t.Cost)
}

// drop drops up to n counters that ended by now and returns how many it did.
func (sh *shard) drop(n int, now int64) (dropped int) {
	for _, queue := range sh.queues {
		for front := queue.Front(); front != nil && dropped < n; front = queue.Front() {
			c := front.Value.(*counter)
			if c.ends > now {
				break
			}
			queue.Remove(front)
			delete(sh.counters, c.key)
			dropped++
		}
	}
	return dropped
}

// Listen implements Store.
func (s *MemoryStore) Listen(ctx context.Context, _ string, _ func(string)) error {
	<-ctx.Done()
	return nil
}

// tell tells the listeners of a channel.
func (s *MemoryStore) tell(channel, subject string) {}
