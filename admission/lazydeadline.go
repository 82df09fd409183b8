package admission

import (
	"context"
	"sync"
	"time"
)

// A lazyDeadline is a context with a deadline that is not cancelled with its parent; it only inherits the parent's values. It creates its
// timer when Done is first called. A memorystore.Store never calls Done; with it, an ordinary context would take a fifth of the time of a
// decision.
type lazyDeadline struct {
	context.Context // for its values
	until           time.Time

	mu    sync.Mutex
	err   error         // guarded by mu: reason of the end
	done  chan struct{} // guarded by mu; nil until Done is called
	timer *time.Timer   // guarded by mu; nil until Done is called
}

// Deadline implements context.Context.
func (p *lazyDeadline) Deadline() (time.Time, bool) { return p.until, true }

// Done implements context.Context.
func (p *lazyDeadline) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.err != nil {
			close(p.done)
		} else {
			p.timer = time.AfterFunc(time.Until(p.until), func() { p.end(context.DeadlineExceeded) })
		}
	}
	return p.done
}

// Err implements context.Context.
func (p *lazyDeadline) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// end ends p early. Only the first call has an effect.
func (p *lazyDeadline) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = why
	if p.done != nil {
		close(p.done)
		p.timer.Stop()
	}
}
