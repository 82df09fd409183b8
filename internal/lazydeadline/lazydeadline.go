// Package lazydeadline has contexts with a deadline that make a timer only when they need one.
package lazydeadline

import (
	"context"
	"sync"
	"time"
)

// A Context is like one of context.WithDeadline. It makes its channel and its timer when Done is first called. Most decisions only look at
// the time: those from memory, and those that wait for a script with others. For a refusal a timer would be one of the most expensive
// steps. Make it with Within or Detached.
type Context struct {
	context.Context           // the parent
	at              time.Time // or zero: it ends with its parent, or never if it is detached
	detached        bool

	mu    sync.Mutex
	err   error         // why it has ended; guarded by mu
	done  chan struct{} // nil until Done is called; guarded by mu
	timer *time.Timer   // nil until Done is called, or without a time; guarded by mu
	stop  func() bool   // stops waiting for the parent, or nil; guarded by mu
}

// Within returns a context that ends with its parent, and after a while unless that is 0. End must be called.
func Within(parent context.Context, most time.Duration) *Context {
	if most == 0 {
		return &Context{Context: parent}
	}
	at, ok := parent.Deadline()
	if own := time.Now().Add(most); !ok || own.Before(at) {
		at = own
	}
	return &Context{Context: parent, at: at}
}

// Detached returns a context that ends at a time, or never if that is zero, whatever becomes of its parent, whose values it has. End must be
// called.
func Detached(parent context.Context, at time.Time) *Context {
	return &Context{Context: parent, at: at, detached: true}
}

// Only returns the deadline of a context of Detached: nothing else ends it before its user does. ok is false for other contexts.
func Only(ctx context.Context) (at time.Time, ok bool) {
	c, ok := ctx.(*Context)
	if !ok || !c.detached || c.at.IsZero() {
		return time.Time{}, false
	}
	return c.at, true
}

// End ends it, if it has not ended.
func (c *Context) End() { c.end(context.Canceled) }

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	if c.at.IsZero() && !c.detached {
		return c.Context.Deadline()
	}
	return c.at, !c.at.IsZero()
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	if c.ended() != nil {
		close(c.done)
		return c.done
	}
	if !c.at.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.at), func() { c.end(context.DeadlineExceeded) })
	}
	if !c.detached && c.Context.Done() != nil {
		c.stop = context.AfterFunc(c.Context, func() { c.end(c.Context.Err()) })
	}
	return c.done
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil { // otherwise Done and Err change together
		return c.ended()
	}
	return c.err
}

// ended returns why it has ended, or nil. It is called with mu locked, before Done has made a timer.
func (c *Context) ended() error {
	if c.err == nil && !c.detached {
		c.err = c.Context.Err()
	}
	if c.err == nil && !c.at.IsZero() && !time.Now().Before(c.at) {
		c.err = context.DeadlineExceeded
	}
	return c.err
}

func (c *Context) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = why
	if c.done == nil {
		return
	}
	close(c.done)
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.stop != nil {
		c.stop()
	}
}
