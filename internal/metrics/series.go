package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// series holds the series of a vector by the values of their labels. A vector itself locks, and hashes and compares the values one by one:
// without this, reading a place costs 3 % more CPU time.
type series[L comparable, S any] struct {
	of func(L) S // from the vector

	mu    sync.Mutex              // held while one is added
	found atomic.Pointer[map[L]S] // replaced then
}

func newSeries[L comparable, S any](of func(L) S) *series[L, S] {
	s := &series[L, S]{of: of}
	s.found.Store(&map[L]S{})
	return s
}

// with returns the series with these values.
func (s *series[L, S]) with(labels L) S {
	if one, ok := (*s.found.Load())[labels]; ok {
		return one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.found.Load())
	all[labels] = s.of(labels)
	s.found.Store(&all)
	return all[labels]
}
