package httpapi

import (
	"container/list"
	"sync"
	"time"
)

// Minimum, initial and maximum number of orders that are decided at a time.
const (
	capacityLeast = 64
	capacityFirst = 256
	capacityMost  = 4096
)

// Bounds of the Retry-After of refused orders.
const (
	comeBackLeast = time.Second
	comeBackMost  = 30 * time.Second
)

// A capacity limits how many orders are decided at a time. A process that accepts more orders than it can decide in time
// decides none in time: all clients time out and retry. The limit shrinks while more than a tenth of the decisions are late,
// and grows while fewer are late and orders wait. Each refused client gets its own Retry-After, spaced at half of the rate of
// decisions: with the same value for all, they would all return at once, and cost as much again. Safe for concurrent use.
type capacity struct {
	late     time.Duration // decisions that take longer are late
	patience time.Duration // maximum wait for room

	mu      sync.Mutex
	limit   int       // guarded by mu
	inUse   int       // guarded by mu
	waiting list.List // guarded by mu: a chan struct{} per caller, closed when there is room, in order of arrival
	window  window    // guarded by mu
	pace    float64   // decisions per second, a moving average, guarded by mu
	back    time.Time // when the latest refused client is to retry, guarded by mu
}

// A window counts decisions until its end.
type window struct {
	began, end  time.Time
	count, late int
	full        bool // an order had to wait
}

func newCapacity(within time.Duration) *capacity {
	return &capacity{late: within * 3 / 4, patience: within / 2, limit: capacityFirst}
}

// enter waits for room, up to half of a decision's time. Without room it returns when to retry. After ok, the caller must call
// leave.
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

// later returns when a client that was refused elsewhere should retry.
func (c *capacity) later() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comeBack()
}

// comeBack is called with mu held. It assumes that limit orders are decided per decision's time (2*patience), or more if a
// higher rate was measured. Refused clients get half of the rate; the other half is for new ones.
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

// leave makes room after a decision that took so long; took 0 is not counted, because it says nothing about this process.
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

// squeeze enters without waiting, for a caller that was in before.
func (c *capacity) squeeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse++
}

// A stay is the room that an order occupies while it is decided. The zero value occupies none.
type stay struct {
	in    *capacity
	since time.Time
}

// leave ends the stay, if it has not ended. counts says whether its duration counts as that of a decision.
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

// outside runs fn without occupying room, because fn waits for another service.
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

// Capacity returns the maximum number of orders decided at a time, and the number of those being decided now.
func (a *API) Capacity() (limit, inUse int) {
	a.capacity.mu.Lock()
	defer a.capacity.mu.Unlock()
	return a.capacity.limit, a.capacity.inUse
}
