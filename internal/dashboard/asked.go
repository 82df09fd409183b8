package dashboard

import (
	"context"
	"sync"
	"time"
)

// askWithin bounds one question.
const askWithin = 5 * time.Second

// asked is a source, and what it said last. Safe for concurrent use.
type asked[T any] struct {
	ask func(context.Context) (T, error)

	mu    sync.Mutex
	busy  chan struct{} // guarded by mu: closed when the answer is there; nil: nobody asks
	at    time.Time     // guarded by mu: when it was last answered
	value T             // guarded by mu
	err   error         // guarded by mu
}

var nothing = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// start asks, unless somebody is being asked already. What it returns is closed with the answer.
func (a *asked[T]) start(ctx context.Context) <-chan struct{} {
	if a.ask == nil {
		return nothing
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy != nil {
		return a.busy
	}
	busy := make(chan struct{})
	a.busy = busy
	go func() {
		defer close(busy)
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		value, err := a.ask(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.err = err; err == nil {
			a.value, a.at = value, time.Now()
		}
		a.busy = nil
	}()
	return busy
}

// wait waits for the answer to the question that is open, if any is.
func (a *asked[T]) wait() {
	a.mu.Lock()
	busy := a.busy
	a.mu.Unlock()
	if busy != nil {
		<-busy
	}
}

// part is what was last said, without a value if that was never more than an error, or nil if nothing was said yet.
func (a *asked[T]) part(now time.Time) *Part[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() && a.err == nil {
		return nil
	}
	p := &Part[T]{}
	if !a.at.IsZero() {
		value := a.value // whoever makes a frame may change it
		p.Value, p.AgeMS = &value, max(0, now.Sub(a.at).Milliseconds())
	}
	if a.err != nil {
		p.Error = short(a.err.Error(), mostReason)
	}
	return p
}
