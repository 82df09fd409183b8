package loadshed

import (
	"container/list"
	"sync"
	"time"
)

// Minimum, initial and maximum number of orders that are decided at a time.
const (
	minLimit   = 64
	firstLimit = 256
	maxLimit   = 4096
)

// Bounds of the Retry-After of orders that this process has no room for. An item with too many uncommitted orders has its own:
// retryCapacity in package orders.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 30 * time.Second
)

// A Capacity limits how many orders are decided at a time. A process that accepts more orders than it can decide in time
// decides none in time: all clients time out and retry. The limit shrinks while more than a tenth of the decisions are late,
// and grows while fewer are late and orders wait. Each refused client gets its own Retry-After, spaced at half of the rate of
// decisions: with the same value for all, they would all return at once, and cost as much again. Safe for concurrent use.
type Capacity struct {
	late    time.Duration // decisions that take longer are late
	maxWait time.Duration // for room

	mu      sync.Mutex
	limit   int       // guarded by mu
	inUse   int       // guarded by mu
	waiting list.List // guarded by mu: a chan struct{} per caller, closed when there is room, in order of arrival
	window  window    // guarded by mu
	pace    float64   // decisions per second, a moving average, guarded by mu
	retryAt time.Time // when the latest refused client is to retry, guarded by mu
}

// A window counts decisions until its end.
type window struct {
	began, end  time.Time
	count, late int
	full        bool // an order had to wait
}

// NewCapacity makes the capacity for decisions that may take the given time.
func NewCapacity(within time.Duration) *Capacity {
	return &Capacity{late: within * 3 / 4, maxWait: within / 2, limit: firstLimit}
}

// Enter waits for room, up to half of a decision's time. Without room it returns when to retry. After ok, the caller must call
// Leave of the stay.
func (c *Capacity) Enter() (s Stay, retryAfter time.Duration, ok bool) {
	if retryAfter, ok = c.enter(); !ok {
		return Stay{}, retryAfter, false
	}
	return Stay{c, time.Now()}, 0, true
}

func (c *Capacity) enter() (retryAfter time.Duration, ok bool) {
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
	timer := time.NewTimer(c.maxWait)
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
		return c.nextRetry(), false
	}
}

// RetryAfter returns when a client that was refused elsewhere should retry.
func (c *Capacity) RetryAfter() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextRetry()
}

// nextRetry is called with mu held. It assumes that limit orders are decided per decision's time (2*maxWait), or more if a
// higher rate was measured. Refused clients get half of the rate; the other half is for new ones.
func (c *Capacity) nextRetry() time.Duration {
	now := time.Now()
	if c.retryAt.Before(now) {
		c.retryAt = now
	}
	pace := max(c.pace, float64(c.limit)/(2*c.maxWait).Seconds())
	c.retryAt = c.retryAt.Add(time.Duration(float64(time.Second) / (pace / 2)))
	if latest := now.Add(maxRetryAfter); c.retryAt.After(latest) {
		c.retryAt = latest
	}
	return max(minRetryAfter, c.retryAt.Sub(now))
}

// leave makes room after a decision that took so long; took 0 is not counted, because it does not measure this process.
func (c *Capacity) leave(took time.Duration) {
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
			c.limit = max(minLimit, c.limit*3/4)
		case w.full && w.count > 0:
			c.limit = min(maxLimit, c.limit+c.limit/8)
		}
		if !w.began.IsZero() {
			c.pace += (float64(w.count)/now.Sub(w.began).Seconds() - c.pace) / 4
		}
		*w = window{began: now, end: now.Add(c.maxWait)}
	}
	for c.inUse < c.limit && c.waiting.Len() > 0 {
		c.inUse++
		close(c.waiting.Remove(c.waiting.Front()).(chan struct{}))
	}
}

// reenter enters without waiting, for a caller that was in before.
func (c *Capacity) reenter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse++
}

// A Stay is the room that an order occupies while it is decided. The zero value occupies none.
type Stay struct {
	in    *Capacity
	since time.Time
}

// Leave ends the stay, if it has not ended. counts reports whether its duration counts as that of a decision.
func (s *Stay) Leave(counts bool) {
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

// Outside runs fn without occupying room, because fn waits for another service.
func (s *Stay) Outside(fn func() error) error {
	in := s.in
	s.Leave(false)
	err := fn()
	if in != nil {
		in.reenter()
		*s = Stay{in, time.Now()}
	}
	return err
}

// Limits returns the maximum number of orders decided at a time, and the number of those being decided now.
func (c *Capacity) Limits() (limit, inUse int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit, c.inUse
}
