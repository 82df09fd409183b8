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

// When somebody who found no room is told to come back.
const (
	comeBackLeast = time.Second
	comeBackMost  = 30 * time.Second
)

// A capacity bounds how many orders are decided at a time. A process that takes on more than it can decide in time decides nothing in time:
// everybody waits too long, gives up and comes back. So it takes on fewer while more than a tenth of the decisions are late, and more while
// fewer are and somebody waits. Who finds no room is given a time of his own to come back, at half of the pace of decisions: told the same
// time, all would come back at once, and cost what they are refused for. Safe for concurrent use.
type capacity struct {
	late     time.Duration // a decision that takes longer, is
	patience time.Duration // for room

	mu      sync.Mutex
	limit   int       // guarded by mu
	inUse   int       // guarded by mu
	waiting list.List // guarded by mu: chan struct{} of each, closed when there is room, the first come first
	window  window    // guarded by mu
	pace    float64   // decisions a second, a moving average, guarded by mu
	back    time.Time // when the latest who was refused is to come back, guarded by mu
}

// A window is what happened until its end.
type window struct {
	began, end  time.Time
	count, late int
	full        bool // somebody waited
}

func newCapacity(within time.Duration) *capacity {
	return &capacity{late: within * 3 / 4, patience: within / 2, limit: capacityFirst}
}

// enter waits for room, for half of a decision's time at most. Without room it returns when to come back. Who enters must leave.
func (c *capacity) enter() (comeBack time.Duration, ok bool) {
	c.mu.Lock()
	if c.inUse < c.limit && c.waiting.Len() == 0 {
		c.inUse++
		c.mu.Unlock()
		return 0, true
	}
	c.window.full = true
	room := make(chan struct{})
	place := c.waiting.PushBack(room)
	c.mu.Unlock()
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-room:
		return 0, true
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-room: // at the last moment
		return 0, true
	default:
		c.waiting.Remove(place)
		return c.comeBack(), false
	}
}

// later is when to come back for who was refused elsewhere.
func (c *capacity) later() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comeBack()
}

// comeBack is called with mu held. As many as may be in are decided within a decision's time at least: so fast it is before there is a pace
// to go by, as in the first moment of a sale. The other half of the pace is for those who come for the first time.
func (c *capacity) comeBack() time.Duration {
	now := time.Now()
	if c.back.Before(now) {
		c.back = now
	}
	pace := max(c.pace, float64(c.limit)/(2*c.patience).Seconds())
	c.back = c.back.Add(time.Duration(float64(time.Second) / (pace / 2)))
	if latest := now.Add(comeBackMost); c.back.After(latest) {
		c.back = latest
	}
	return max(comeBackLeast, c.back.Sub(now))
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
		if !w.began.IsZero() {
			c.pace += (float64(w.count)/now.Sub(w.began).Seconds() - c.pace) / 4
		}
		*w = window{began: now, end: now.Add(c.patience)}
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
