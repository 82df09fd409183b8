// Package breaker is a circuit breaker: while something does not answer, it saves most callers from waiting for it.
//
// It replaces sony/gobreaker, which cannot do three things that callers here need: report the success of a call that it did not allow, such
// as a background exchange with the same store; ignore a call that proves nothing, because its caller left; and report a success, as every
// decision does, with one atomic read instead of two locks.
package breaker

import (
	"sync/atomic"
	"time"
)

// A Breaker opens after several consecutive failures. While it is open, one caller in each pause is allowed to try, and one success closes
// it. Make it with New; it is safe for concurrent use. Each process has its own.
type Breaker struct {
	after int32
	pause int64
	start time.Time

	failures atomic.Int32 // consecutive, at most after
	retryAt  atomic.Int64 // ns after start; while open, when the next caller may try
}

// New returns a closed breaker that opens after this many failures, at least 1.
func New(after int, pause time.Duration) *Breaker {
	return &Breaker{after: int32(after), pause: int64(pause), start: time.Now()}
}

// Open reports whether the last calls failed.
func (b *Breaker) Open() bool { return b.failures.Load() >= b.after }

// Allows reports whether the caller may make a call: always while the breaker is closed, once in each pause while it is open. The
// caller need not report how the call went.
func (b *Breaker) Allows() bool { return !b.Open() || b.Probes() }

// Probes reports whether the breaker is open and it is this caller's turn to try.
func (b *Breaker) Probes() bool {
	if !b.Open() {
		return false
	}
	now, at := b.now(), b.retryAt.Load()
	return now >= at && b.retryAt.CompareAndSwap(at, now+b.pause)
}

// Succeeded ends a series of failures. It reports whether it has closed the breaker.
func (b *Breaker) Succeeded() (closed bool) {
	return b.failures.Load() != 0 && // reading first avoids writes to a shared cache line
		b.failures.Swap(0) >= b.after
}

// Failed counts a failure. It reports whether it has opened the breaker.
func (b *Breaker) Failed() (opened bool) {
	for {
		n := b.failures.Load()
		if n >= b.after {
			return false
		}
		if n+1 == b.after {
			b.retryAt.Store(b.now() + b.pause) // before it is open, so that no caller probes at once
		}
		if b.failures.CompareAndSwap(n, n+1) {
			return n+1 == b.after
		}
	}
}

// now does not follow the wall clock, which may be set.
func (b *Breaker) now() int64 { return int64(time.Since(b.start)) }
