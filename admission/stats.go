package admission

import "slices"

// Stats are what a gate counts about itself, since it was made.
type Stats struct {
	Version     string // of the rules in force
	RulesFailed bool   // the files of the rules have changed, and the change is wrong
	Degraded    bool   // the store does not answer
	Processes   int    // alive when the store was last heard of
	Bans        int    // in force; some may have ended in the last five seconds

	Asked      uint64 // charges that the store was asked about
	Denials    int    // counters that are remembered as having refused
	DenyHits   uint64 // requests without an ID that a remembered denial refused
	DenyMisses uint64 // those without an ID that none did, and that were not refused by a ban or a direct rule

	Memory []MemoryStats // of a MemoryStore, by shard; of another store none
}

// Uncleaned reports whether a shard of a MemoryStore was not cleaned in time.
func (s *Stats) Uncleaned() bool {
	return slices.ContainsFunc(s.Memory, func(m MemoryStats) bool { return m.Late })
}

// Stats returns the numbers of now.
func (g *Gate) Stats() Stats {
	s := Stats{
		Version: g.Rules().Version(), RulesFailed: g.inForce.failed.Load() != nil, Degraded: g.breaker.open(),
		Processes: g.bans.processes(), Bans: g.bans.size(), Asked: g.asked.sum(),
	}
	if memory, ok := g.store.(*MemoryStore); ok {
		s.Memory = memory.Stats()
	}
	if g.denied != nil {
		s.Denials, s.DenyHits, s.DenyMisses = g.denied.denials.EstimatedSize(), g.denied.hits.sum(), g.denied.misses.sum()
	}
	return s
}
