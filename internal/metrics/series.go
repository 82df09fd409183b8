package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
)

// series caches the series of a vector by the values of their labels: the look-up of the vector locks, and hashes each value, which is
// 3 % of the CPU time of reading a place. Values must be few, since each new combination copies the map, and no series may be deleted
// from the vector: the cache would count on in it. Make it with newSeries; it is safe for concurrent use.
type series[L comparable, S any] struct {
	create func(L) S // in the vector, or gets it from there

	mu    sync.Mutex              // held to add one
	known atomic.Pointer[map[L]S] // never changed: an addition stores a copy
}

func newSeries[L comparable, S any](create func(L) S) *series[L, S] {
	s := &series[L, S]{create: create}
	s.known.Store(&map[L]S{})
	return s
}

// with returns the series with these values.
func (s *series[L, S]) with(labels L) S {
	if one, ok := (*s.known.Load())[labels]; ok {
		return one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := *s.known.Load()
	if one, ok := known[labels]; ok { // added meanwhile
		return one
	}
	all := maps.Clone(known)
	all[labels] = s.create(labels)
	s.known.Store(&all)
	return all[labels]
}
