package admission

import (
	"context"
	"time"
)

const (
	sweepEvery = 10 * time.Second
	sweepBatch = 1000 // counters looked at under one lock, well below a millisecond
)

// Run gives the memory of counters that ended back every ten seconds, until ctx ends; it then returns nil. Without it the
// store decides the same, but a store that nobody asks any more keeps what it holds.
func (s *MemoryStore) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.sweep()
		}
	}
}

// sweep drops every counter that has ended. It locks one shard at a time and lets go between batches.
func (s *MemoryStore) sweep() {
	for i := range s.shards {
		for sh := &s.shards[i]; ; {
			sh.mu.Lock()
			more := sh.clean(sweepBatch, s.now())
			sh.mu.Unlock()
			if !more {
				break
			}
		}
	}
}
