package orders

import (
	"sync"
	"time"
)

// sightings are since when each process on the roll shows the same pulse, by
// the monotonic clock of this process: no clock of another machine can make a
// process silent, or alive. The zero value has seen nobody. Safe for concurrent
// use.
type sightings struct {
	mu     sync.Mutex
	server string
	last   time.Time // when the roll was last read
	since  time.Time // since when it has been read without a gap; zero: nothing was missed yet
	seen   map[string]sighting
}

type sighting struct {
	pulse string
	since time.Time // an answer with this pulse had come by then
}

// observe notes a roll that was asked for and came at these moments. Time in
// which the database could not be reached, or in which it was replaced, is not
// held against anybody: nobody could be seen. It tells whether the database
// server is another one than before.
func (s *sightings) observe(asked, came time.Time, roll Roll) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced = s.server != "" && s.server != roll.Server
	if replaced || !s.last.IsZero() && asked.Sub(s.last) > rollGap {
		s.seen, s.since = nil, came
	}
	s.server = roll.Server
	if came.After(s.last) {
		s.last = came
	}
	seen := make(map[string]sighting, len(roll.Members))
	for _, m := range roll.Members {
		before, ok := s.seen[m.Process]
		if !ok || before.pulse != m.Pulse {
			before = sighting{m.Pulse, came}
		}
		seen[m.Process] = before
	}
	s.seen = seen
	return replaced
}

// awaited splits those on a roll that was asked for at a moment and have not
// acknowledged: the silent, for whom nobody waits, and how many others there
// are. Behind a gap whoever lives is given the time to be seen again, also if
// the roll has forgotten it.
func (s *sightings) awaited(asked time.Time, roll Roll) (silent []Member, others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range roll.Members {
		switch at := s.seen[m.Process]; {
		case m.Acknowledged:
		case at.pulse == m.Pulse && asked.Sub(at.since) >= silence:
			silent = append(silent, m)
		default:
			others++
		}
	}
	if asked.Sub(s.since) < silence {
		others++
	}
	return silent, others
}
