// Package recent caches the last answer of a source that is slow or may not answer.
package recent

import (
	"context"
	"sync"
	"time"
)

// A Source is asked once at a time, however many want to know. Make it with New. It is safe for concurrent use.
type Source[T any] struct {
	ask    func(context.Context) (T, error)
	within time.Duration

	mu     sync.Mutex
	asking chan struct{} // guarded by mu; closed when the question is answered, nil: no question is pending
	ended  time.Time     // guarded by mu: of the last question
	answer Answer[T]     // guarded by mu
}

// An Answer is the most recent result.
type Answer[T any] struct {
	Value T
	At    time.Time // zero: there was never a Value
	Err   error     // of the last question; Value is then of one before
}

// New returns a source whose questions end after within. One without ask is never asked.
func New[T any](within time.Duration, ask func(context.Context) (T, error)) *Source[T] {
	return &Source[T]{ask: ask, within: within}
}

// closed is returned where no question is pending.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// Ask asks, unless that is being done or was done less than fresh ago. The question outlives ctx by no more than its own time. What it
// returns is closed when there is an answer.
func (s *Source[T]) Ask(ctx context.Context, fresh time.Duration) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asking != nil:
		return s.asking
	case s.ask == nil, fresh > 0 && time.Since(s.ended) < fresh:
		return closed
	}
	s.asking = make(chan struct{})
	go s.once(ctx, s.asking)
	return s.asking
}

// once ends by itself also where clients take no context: they bound their time.
func (s *Source[T]) once(ctx context.Context, done chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	value, err := s.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = time.Now()
	if s.answer.Err = err; err == nil {
		s.answer.Value, s.answer.At = value, s.ended
	}
	close(done)
	s.asking = nil
}

// Asking is closed when the question under way is answered, or if there is none.
func (s *Source[T]) Asking() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == nil {
		return closed
	}
	return s.asking
}

// Last returns the most recent result.
func (s *Source[T]) Last() Answer[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer
}
