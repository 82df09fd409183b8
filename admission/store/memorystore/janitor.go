package memorystore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	sweepEvery = 10 * time.Second
	sweepBatch = 1000           // counters inspected under one lock: well below a millisecond
	sweepLate  = 3 * sweepEvery // age of the last cleaning after which a shard counts as late
)

// A cleaner frees the memory of one part of the store; there is one part for each processor. Shards, which callers lock, are smaller.
type cleaner struct {
	shards []shard
	done   atomic.Int64 // end of the last cleaning, µs
}

// Stats are statistics of one part of a Store since it was made.
type Stats struct {
	Subjects  int           // counters held; all answers to a subject's requests with an ID count as one
	Reclaimed uint64        // ended counters that were dropped
	Evicted   uint64        // counters that still counted and were dropped for others, see Store
	Cleaned   time.Duration // since the last cleaning ended
	Late      bool          // Cleaned is too long: ended counters keep their memory
}

// Stats returns the current numbers, one element for each part.
func (s *Store) Stats() []Stats {
	all := make([]Stats, len(s.cleaners))
	for i := range s.cleaners {
		c, m := &s.cleaners[i], &all[i]
		for j := range c.shards {
			sh := &c.shards[j]
			sh.mu.Lock()
			m.Subjects += sh.table.count
			m.Reclaimed += sh.reclaimed
			m.Evicted += sh.evicted
			sh.mu.Unlock()
		}
		m.Cleaned = max(0, time.Duration(s.now()-c.done.Load())*time.Microsecond)
		m.Late = m.Cleaned > sweepLate
	}
	return all
}

// Run frees the memory of ended counters every ten seconds until ctx ends; it then returns nil. Without Run the decisions are the same,
// but an idle store keeps its memory.
func (s *Store) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i := range s.cleaners {
		wg.Go(func() { _ = periodic.Every(ctx, sweepEvery, func() { s.cleaners[i].clean(s.now) }) })
	}
	wg.Wait()
	return nil
}

// Clean frees the memory of ended counters now.
func (s *Store) Clean() {
	for i := range s.cleaners {
		s.cleaners[i].clean(s.now)
	}
}

// clean drops every counter that has ended. It locks one shard at a time and releases the lock between batches.
func (c *cleaner) clean(now func() int64) {
	for i := range c.shards {
		for sh := &c.shards[i]; ; {
			sh.mu.Lock()
			more := sh.clean(sweepBatch, now())
			sh.mu.Unlock()
			if !more {
				break
			}
		}
	}
	c.done.Store(now())
}
