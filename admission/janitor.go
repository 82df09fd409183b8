package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sweepEvery = 10 * time.Second
	sweepBatch = 1000           // counters looked at under one lock, well below a millisecond
	sweepLate  = 3 * sweepEvery // after which a shard counts as not cleaned
)

// A cleaner gives back the memory of a part of the store, of which there is one for each processor. Callers lock smaller shards than that.
type cleaner struct {
	shards []shard
	done   atomic.Int64 // when the last cleaning ended, µs
}

// MemoryStats are what one part of a MemoryStore counts about itself since it was made.
type MemoryStats struct {
	Subjects  int           // counters that it holds; answers to requests with an ID count as one for their subject
	Reclaimed uint64        // counters that had ended and were dropped
	Evicted   uint64        // counters that still counted and made room for others, see MemoryStore
	Cleaned   time.Duration // since the last cleaning ended
	Late      bool          // that is too long ago: what has ended keeps its memory
}

// Stats returns the numbers of now, of as many parts as there are cleaners.
func (s *MemoryStore) Stats() []MemoryStats {
	all := make([]MemoryStats, len(s.cleaners))
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
		m.Cleaned = max(0, micros(s.now()-c.done.Load()))
		m.Late = m.Cleaned > sweepLate
	}
	return all
}

// Run gives the memory of counters that ended back every ten seconds, until ctx ends; it then returns nil. Without it the
// store decides the same, but a store that nobody asks any more keeps what it holds.
func (s *MemoryStore) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i := range s.cleaners {
		wg.Go(func() { every(ctx, sweepEvery, func(context.Context) { s.cleaners[i].clean(s.now) }) })
	}
	wg.Wait()
	return nil
}

// clean drops every counter that has ended. It locks one shard at a time and lets go between batches.
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
