package orders

import (
	"sync"
	"time"
)

// observer records how long the heartbeat counter (pulse) of each process on the process list has not changed. It uses the monotonic
// clock of this process: no clock of another machine can make a process look silent, or alive. The zero value has no
// observations. Safe for concurrent use.
type observer struct {
	mu     sync.Mutex
	server string                 // the database server that was read last, guarded by mu
	last   time.Time              // when the process list was last read, guarded by mu
	since  time.Time              // when the first reading after the latest gap came, guarded by mu; zero: there was no gap
	pulses map[string]observation // by process, guarded by mu
}

type observation struct {
	pulse string
	since time.Time // when the first reading with this pulse came
}

// observe records a process list that was requested at asked and arrived at came. After a gap between two reads, or when the database
// server was replaced, it starts again: heartbeats may have failed meanwhile although their process is alive. It reports
// whether the database server was replaced.
func (s *observer) observe(asked, came time.Time, list ProcessList) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced = s.server != "" && s.server != list.Server
	if replaced || !s.last.IsZero() && asked.Sub(s.last) > heartbeatGap {
		s.pulses, s.since = nil, came
	}
	s.server = list.Server
	if came.After(s.last) {
		s.last = came
	}
	pulses := make(map[string]observation, len(list.Members))
	for _, m := range list.Members {
		o, ok := s.pulses[m.Process]
		if !ok || o.pulse != m.Pulse {
			o = observation{m.Pulse, came}
		}
		pulses[m.Process] = o
	}
	s.pulses = pulses
	return replaced
}

// awaited returns the members of a process list that have not acknowledged and are silent, so that a leader need not wait for them, and
// how many members it has to wait for. Within silence after a gap, it has to wait for at least one: a live process may not be
// on the process list again yet.
func (s *observer) awaited(asked time.Time, list ProcessList) (silent []Member, waitFor int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list.Members {
		switch o := s.pulses[m.Process]; {
		case m.Acknowledged:
		case o.pulse == m.Pulse && asked.Sub(o.since) >= silence:
			silent = append(silent, m)
		default:
			waitFor++
		}
	}
	if asked.Sub(s.since) < silence {
		waitFor++
	}
	return silent, waitFor
}
