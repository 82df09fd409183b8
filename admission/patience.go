package admission

import (
	"context"
	"sync"
	"time"
)

// A patience is a context that ends at a time, and not with the context that gives its values. It makes its timer when somebody
// begins to wait for it, which over a MemoryStore nobody does: there an ordinary context would be a fifth of a decision.
type patience struct {
	context.Context // for its values
	until           time.Time

	mu    sync.Mutex
	err   error         // guarded by mu: why it has ended
	done  chan struct{} // guarded by mu; nil until somebody waits
	timer *time.Timer   // guarded by mu; nil until somebody waits
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) { return p.until, true }

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} {
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
func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// end ends p before its time. Only the first reason counts.
func (p *patience) end(why error) {
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
