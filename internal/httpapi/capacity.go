package httpapi

import (
	"container/list"
	"sync"
	"time"
)

// How many orders are decided at a time, at least, at first and at most.
const (
	capacityLeast = 64
	capacityFirst = 256
	capacityMost  = 4096
)

// A capacity bounds how many orders are decided at a time. A process that takes on more than it can decide in time decides nothing in time:
// everybody waits too long, gives up and comes back. So it takes on fewer while more than a tenth of the decisions are late, and more while
// fewer are and somebody waits. Safe for concurrent use.
type capacity struct {
	late     time.Duration // a decision that takes longer, is
	patience time.Duration // for room

	mu      sync.Mutex
	limit   int       // guarded by mu
	inUse   int       // guarded by mu
	waiting list.List // guarded by mu: chan struct{} of each, closed when there is room, the first come first
	window  window    // guarded by mu
}

// A window is what happened until its end.
type window struct {
	end         time.Time
	count, late int
	full        bool // somebody waited
}

func newCapacity(within time.Duration) *capacity {
	return &capacity{late: within * 3 / 4, patience: within / 2, limit: capacityFirst}
}

// enter waits for room, and tells whether there was any in time. Who enters must leave.
func (c *capacity) enter() bool {
	c.mu.Lock()
	if c.inUse < c.limit && c.waiting.Len() == 0 {
		c.inUse++
		c.mu.Unlock()
		return true
	}
	c.window.full = true
	room := make(chan struct{})
	place := c.waiting.PushBack(room)
	c.mu.Unlock()
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-room:
		return true
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-room: // at the last moment
		return true
	default:
		c.waiting.Remove(place)
		return false
	}
}

// leave makes room after a decision that took so long; 0 says nothing of this process, and does not count.
func (c *capacity) leave(took time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse--
	w := &c.window
	if took > 0 {
		w.count++
	}
	if took > c.late {
		w.late++
	}
	if now.After(w.end) {
		switch {
		case w.late*10 > w.count:
			c.limit = max(capacityLeast, c.limit*3/4)
		case w.full && w.count > 0:
			c.limit = min(capacityMost, c.limit+c.limit/8)
		}
		*w = window{end: now.Add(c.patience)}
	}
	for c.inUse < c.limit && c.waiting.Len() > 0 {
		c.inUse++
		close(c.waiting.Remove(c.waiting.Front()).(chan struct{}))
	}
}

// squeeze enters without waiting, for who was in already.
func (c *capacity) squeeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse++
}

// A stay is the room that an order takes while it is decided. The zero value takes none.
type stay struct {
	in    *capacity
	since time.Time
}

// leave ends the stay, if it has not ended. It counts if it says how long decisions take.
func (s *stay) leave(counts bool) {
	if s.in == nil {
		return
	}
	took := time.Duration(0)
	if counts {
		took = time.Since(s.since)
	}
	s.in.leave(took)
	s.in = nil
}

// outside has fn done without room, for it waits for somebody else.
func (s *stay) outside(fn func() error) error {
	in := s.in
	s.leave(false)
	err := fn()
	if in != nil {
		in.squeeze()
		*s = stay{in, time.Now()}
	}
	return err
}

// Capacity returns how many orders are decided at a time at most, and how many are now.
func (a *API) Capacity() (limit, inUse int) {
	a.capacity.mu.Lock()
	defer a.capacity.mu.Unlock()
	return a.capacity.limit, a.capacity.inUse
}
