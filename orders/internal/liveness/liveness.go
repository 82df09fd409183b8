// Package liveness decides how long a process may accept orders after a heartbeat, and when the others may do without it.
package liveness

import (
	"fmt"
	"sync"
	"time"
)

const (
	// HeartbeatInterval is the time between two heartbeats of a process.
	HeartbeatInterval = 500 * time.Millisecond
	// LeaseFor is how long after a heartbeat a process accepts orders.
	LeaseFor = 5 * time.Second
	// Silence is how long a leader waits for a process whose heartbeat does not change. It exceeds the lease by a margin for
	// clocks that run at different speeds and for replies in transit. A longer silence would be as safe, but
	// a sale would stay closed longer for a process that died just before.
	Silence = 6 * time.Second

	// gap is the longest time between two reads of the process list that does not restart the observation.
	gap = 4 * HeartbeatInterval
)

// A Lease is the time during which this process may accept orders. A heartbeat that reached the database renews it. It ends
// before any Observer considers the process silent, so a process that a recovery does not wait for accepts nothing. It uses the
// monotonic clock of this process. The zero value is a lease that has not begun. Safe for concurrent use.
type Lease struct {
	mu    sync.Mutex
	until time.Time
	term  int64 // counts the times the lease began
}

// Renew extends the lease for a heartbeat that was sent at sent and answered at now.
func (l *Lease) Renew(sent, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.until) {
		l.term++
	}
	if until := sent.Add(LeaseFor); until.After(l.until) {
		l.until = until
	}
}

// Held returns the term of the lease, and whether the process holds it. Between two terms a sale may have been recovered
// without this process, so replies and acceptances of one term are not relied on in another.
func (l *Lease) Held(now time.Time) (term int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, now.Before(l.until)
}

// End gives the lease up.
func (l *Lease) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
}

// Member is a process on the process list of an installation.
type Member struct {
	Process string
	// Pulse changes with each heartbeat. Its value has no other meaning.
	Pulse string
	// Acknowledged: the process has handed over the orders it remembered. Set by HandOver only.
	Acknowledged bool
	// Commits: the process has written orders lately, or proved that it could.
	Commits bool
	// Host, Addr and Program say where the process runs, for operators.
	Host, Addr, Program string
}

// String names the process for operators.
func (m Member) String() string {
	if m.Host == "" {
		return "process " + m.Process
	}
	return fmt.Sprintf("%s on %s (%s), process %s", m.Program, m.Host, m.Addr, m.Process)
}

// A Self is what a process reports about itself with each heartbeat.
type Self struct {
	Process, Host, Program string
	Commits                bool
}

// ProcessList is the list of the running processes at one time.
type ProcessList struct {
	// Server changes when the database restarts or fails over.
	Server  string
	Members []Member
	// Clock is the database's when it read the list. Set by Heartbeat only.
	Clock time.Time
}

// An Observer records how long the heartbeat counter (pulse) of each process on the process list has not changed. It uses the monotonic
// clock of this process: no clock of another machine can make a process look silent, or alive. The zero value has no
// observations. Safe for concurrent use.
type Observer struct {
	mu     sync.Mutex
	server string                 // the database server that was read last, guarded by mu
	first  time.Time              // when the reading came with which the observations began, guarded by mu
	last   time.Time              // when the process list was last read, guarded by mu
	since  time.Time              // when the first reading after the latest gap came, guarded by mu; zero: there was no gap
	pulses map[string]observation // by process, guarded by mu
	proved time.Time              // when a live process was last known to commit, guarded by mu
}

type observation struct {
	member Member    // as it was last read
	since  time.Time // when the first reading with this pulse came
	beats  bool      // an earlier reading had another pulse
}

// Observe records a process list that was requested at asked and arrived at came. After a gap between two reads, or when the database
// server was replaced, it starts again: heartbeats may have failed meanwhile although their process is alive. It reports
// whether the database server was replaced.
func (s *Observer) Observe(asked, came time.Time, list ProcessList) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replaced = s.server != "" && s.server != list.Server
	if replaced || !s.last.IsZero() && asked.Sub(s.last) > gap {
		s.pulses, s.since = nil, came
	}
	if s.pulses == nil {
		s.first = came
	}
	s.server = list.Server
	if came.After(s.last) {
		s.last = came
	}
	pulses := make(map[string]observation, len(list.Members))
	for _, m := range list.Members {
		o, ok := s.pulses[m.Process]
		changed := ok && o.member.Pulse != m.Pulse
		if changed && m.Commits {
			s.proved = came
		}
		if !ok || changed {
			o = observation{member: m, since: came, beats: changed}
		}
		pulses[m.Process] = o
	}
	s.pulses = pulses
	return replaced
}

// Proved returns when a live process was last known to commit orders; zero: never.
func (s *Observer) Proved() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proved
}

// Live returns the members that have sent a heartbeat within LeaseFor. It returns false while too few readings show who has: a
// member that was read once may be a process that was killed long ago.
func (s *Observer) Live(now time.Time) (live []Member, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() || s.last.Sub(s.first) < gap || now.Sub(s.last) > gap {
		return nil, false
	}
	for _, o := range s.pulses {
		if o.beats && now.Sub(o.since) < LeaseFor {
			live = append(live, o.member)
		}
	}
	return live, true
}

// Awaited returns the members of a process list that have not acknowledged: those that are silent, so that a leader need not wait for
// them, and those that it has to wait for. Within Silence after a gap it is too early to know them all: a live process may not be on the
// process list again yet.
func (s *Observer) Awaited(asked time.Time, list ProcessList) (silent, awaited []Member, early bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list.Members {
		switch o := s.pulses[m.Process]; {
		case m.Acknowledged:
		case o.member.Pulse == m.Pulse && asked.Sub(o.since) >= Silence:
			silent = append(silent, m)
		default:
			awaited = append(awaited, m)
		}
	}
	return silent, awaited, asked.Sub(s.since) < Silence
}

// A Pulse shows that a loop still turns. A process sends heartbeats while the loop that hands orders over does: one that could
// not do so must not look alive. The zero value is a loop that does not turn. Safe for concurrent use.
type Pulse struct {
	mu    sync.Mutex
	until time.Time // guarded by mu
}

// Beat counts the loop as turning for the time within.
func (p *Pulse) Beat(within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(within)
}

// Turns reports whether the loop turns.
func (p *Pulse) Turns() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until)
}
