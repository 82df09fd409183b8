package admission

import (
	"context"
	"time"
)

// SetClock makes the store's scripts take their time from now instead of Redis, so that a test need not sleep.
func (s *RedisStore) SetClock(now func() time.Time) {
	s.now = func() int64 { return now().UnixMicro() }
}

// Sweep is one turn of Run.
func (s *MemoryStore) Sweep() {
	for i := range s.cleaners {
		s.cleaners[i].clean(s.now)
	}
}

// Counters is how many counters the store holds.
func (s *MemoryStore) Counters() int {
	n := 0
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += s.shards[i].table.count
		s.shards[i].mu.Unlock()
	}
	return n
}

// Holds reports whether the gate's rules match req.
func (g *Gate) Holds(req Request) bool {
	var p plan
	req = req.withDefaults()
	return g.Rules().plan(&p, matching, &req) == nil && len(p.claims) > 0
}

// SettleDenyCache waits until the deny cache has dropped what it has no room for.
func (g *Gate) SettleDenyCache() { g.denied.denials.CleanUp() }

// SyncBans is one turn of what Run does about bans.
func (g *Gate) SyncBans(ctx context.Context) error { return g.bans.Sync(ctx) }

// SetSkew makes the store believe that Redis' clock is ahead of this machine's by d.
func (s *RedisStore) SetSkew(d time.Duration) { s.skew.Store(int64(d)) }

// Skew is by how much it believes so.
func (s *RedisStore) Skew() time.Duration { return time.Duration(s.skew.Load()) }
