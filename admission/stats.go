package admission

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// Stats are statistics of a gate since it was made.
type Stats struct {
	Version     string // of the rules in force
	RulesFailed bool   // the files of the rules changed and are invalid; the old rules stay in force
	Degraded    bool   // the store does not answer
	Processes   int    // alive at the last reply of the store
	Bans        int    // in force; may include some that ended in the last five seconds

	RulesLoaded time.Time // when the rules in force were read last

	StoreCalls uint64 // charges sent to the store
	Denials    int    // counters in the deny cache
	DenyHits   uint64 // requests without an ID refused from the deny cache
	DenyMisses uint64 // requests without an ID that the deny cache, bans and direct rules did not refuse

	Memory []memorystore.Stats // of a memorystore.Store, one for each part; empty for other stores
}

// CleanupOverdue reports whether a shard of a memorystore.Store was not cleaned in time.
func (s *Stats) CleanupOverdue() bool {
	return slices.ContainsFunc(s.Memory, func(m memorystore.Stats) bool { return m.Late })
}

// Stats returns the current numbers.
func (g *Gate) Stats() Stats {
	s := Stats{
		Version: g.Rules().Version(), RulesFailed: g.live.Failed(), RulesLoaded: g.live.Loaded(), Degraded: g.breaker.Open(),
		Processes: g.bans.Processes(), Bans: g.bans.Len(), StoreCalls: g.asked.sum(),
	}
	if memory, ok := g.store.(*memorystore.Store); ok {
		s.Memory = memory.Stats()
	}
	if g.denied.remembers() {
		s.Denials, s.DenyHits, s.DenyMisses = g.denied.denials.EstimatedSize(), g.denied.hits.sum(), g.denied.misses.sum()
	}
	return s
}
