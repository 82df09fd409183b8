package liveness

import (
	"testing"
	"time"
)

// TestALeaseEndsInTime: a lease ends before any observer considers its process silent.
func TestALeaseEndsInTime(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var l Lease
	if _, ok := l.Held(start); ok {
		t.Error("a lease without a heartbeat")
	}
	l.Renew(at(0), at(time.Second)) // the reply took a second
	first, ok := l.Held(at(LeaseFor - 1))
	if !ok {
		t.Error("the lease ended early")
	}
	if _, ok := l.Held(at(LeaseFor)); ok {
		t.Error("the lease counts from the answer, and others may have seen the heartbeat before that")
	}
	l.Renew(at(2*time.Second), at(2*time.Second))
	if term, ok := l.Held(at(LeaseFor + time.Second)); !ok || term != first {
		t.Errorf("renewed in time it is of term %d, %v; want %d", term, ok, first)
	}
	l.Renew(at(time.Second), at(3*time.Second))
	if _, ok := l.Held(at(LeaseFor + time.Second)); !ok {
		t.Error("an answer that came late shortened the lease")
	}
	l.Renew(at(20*time.Second), at(20*time.Second))
	if term, ok := l.Held(at(20 * time.Second)); !ok || term == first {
		t.Errorf("a lease that had ended is of term %d again", term)
	}
	l.End()
	if _, ok := l.Held(at(20 * time.Second)); ok {
		t.Error("a lease that was given up")
	}
	if LeaseFor >= Silence {
		t.Errorf("a process promises for %v, and is silent after %v", LeaseFor, Silence)
	}
}

// TestSilence: silence follows only from pulses and the observer's own clock.
func TestSilence(t *testing.T) {
	type look struct {
		at     time.Duration
		server string
		pulses map[string]string // by process; "acked" has acknowledged
		silent string            // the only silent one, or ""
		others int
	}
	beats := func(pulses ...string) map[string]string {
		m := map[string]string{"acked": "1"}
		for i, p := range pulses {
			m[string(rune('a'+i))] = p
		}
		return m
	}
	for name, looks := range map[string][]look{
		"one stands still": {
			{0, "s", beats("1", "1"), "", 2},
			{2 * time.Second, "s", beats("1", "2"), "", 2},
			{4 * time.Second, "s", beats("1", "3"), "", 2},
			{6 * time.Second, "s", beats("1", "4"), "a", 1},
			{7 * time.Second, "s", beats("2", "5"), "", 2},
		},
		"seen for the first time": {
			{0, "s", beats(), "", 0},
			{time.Second, "s", beats("1"), "", 1},
		},
		"the database was away": {
			{0, "s", beats("1"), "", 1},
			{time.Minute, "s", beats("1"), "", 1 + 1},
			{62 * time.Second, "s", beats("1"), "", 1 + 1},
			{64 * time.Second, "s", beats("2"), "", 1 + 1},
			{66 * time.Second, "s", beats("3"), "", 1},
		},
		"the database was replaced, and does not know a process yet": {
			{0, "s", beats("7"), "", 1},
			{time.Second, "s", beats("8"), "", 1},
			{2 * time.Second, "other", beats(), "", 1},
			{4 * time.Second, "other", beats("9"), "", 1 + 1},
			{6 * time.Second, "other", beats("10"), "", 1 + 1},
			{8 * time.Second, "other", beats("11"), "", 1},
		},
	} {
		var s Observer
		start := time.Now()
		for i, l := range looks {
			list := ProcessList{Server: l.server}
			for process, pulse := range l.pulses {
				list.Members = append(list.Members, Member{Process: process, Pulse: pulse, Acknowledged: process == "acked"})
			}
			at := start.Add(l.at)
			s.Observe(at, at, list)
			silent, awaited, early := s.Awaited(at, list)
			others := len(awaited)
			if early {
				others++
			}
			got := ""
			if len(silent) == 1 {
				got = silent[0].Process
			}
			if got != l.silent || len(silent) > 1 || others != l.others {
				t.Errorf("%s, look %d: %v silent, %d others; want %q and %d", name, i, silent, others, l.silent, l.others)
			}
		}
	}
}

// TestLive: a process that sends heartbeats is alive, and one that was killed long ago, and is still on the list, is not.
func TestLive(t *testing.T) {
	start := time.Now()
	var s Observer
	look := func(at time.Duration, server, dead, beats string) (int, bool) {
		now := start.Add(at)
		s.Observe(now, now, ProcessList{Server: server, Members: []Member{{Process: "dead", Pulse: dead}, {Process: "alive", Pulse: beats}}})
		live, known := s.Live(now)
		for _, m := range live {
			if m.Process == "dead" && at < 10*time.Second {
				t.Errorf("at %v a process is alive that has sent nothing", at)
			}
		}
		return len(live), known
	}
	if _, known := s.Live(start); known {
		t.Error("nothing was read, and it is known who lives")
	}
	for _, step := range []struct {
		at     time.Duration
		server string
		dead   string
		beats  string
		live   int
		known  bool
	}{
		{0, "s", "9", "1", 0, false},
		{time.Second, "s", "9", "2", 0, false},
		{2 * time.Second, "s", "9", "3", 1, true},
		{4 * time.Second, "s", "9", "3", 1, true},
		{6 * time.Second, "s", "9", "3", 1, true},
		{7 * time.Second, "s", "9", "3", 0, true}, // it has stopped
		{10 * time.Second, "other", "1", "1", 0, false},
		{12 * time.Second, "other", "2", "2", 2, true}, // and comes again
	} {
		if live, known := look(step.at, step.server, step.dead, step.beats); live != step.live || known != step.known {
			t.Errorf("at %v %d live, %v; want %d, %v", step.at, live, known, step.live, step.known)
		}
	}
	if _, known := s.Live(start.Add(time.Minute)); known {
		t.Error("a minute after the last reading it is known who lives")
	}
}
