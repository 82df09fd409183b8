package core

import (
	"maps"
	"slices"
	"sync"
)

// suspects are the sales that may have to be recovered.
type suspects struct {
	mu    sync.Mutex
	sales map[string]int64 // the epoch that is to be replaced even if it looks intact, or 0; guarded by mu
	Added chan struct{}
}

// Add has a sale checked, and recovered if it is not intact, or is in the epoch damaged or an earlier one.
func (s *suspects) Add(sale string, damaged int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, waiting := s.sales[sale]
	s.sales[sale] = max(before, damaged)
	if !waiting {
		Poke(s.Added)
	}
}

// All returns the sales, sorted by name.
func (s *suspects) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sales))
}

// Take removes a sale.
func (s *suspects) Take(sale string) (damaged int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	damaged = s.sales[sale]
	delete(s.sales, sale)
	return damaged
}
