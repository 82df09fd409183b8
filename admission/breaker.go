package admission

import (
	"sync/atomic"
	"time"
)

const (
	breakAfter = 5                      // failures in a row
	breakFor   = 500 * time.Millisecond // until one request tries again
)

// A breaker saves requests from waiting for a store that does not answer. It opens after breakAfter consecutive failures. While it is
// open, one request every breakFor tries the store; one success closes it. The zero value is closed. It is safe for concurrent use.
type breaker struct {
	failures atomic.Int32
	retryAt  atomic.Int64 // ns; while open, when the next request may try
}

// allows reports whether a request may ask the store at now.
func (b *breaker) allows(now int64) bool {
	if !b.open() {
		return true
	}
	at := b.retryAt.Load()
	return now >= at && b.retryAt.CompareAndSwap(at, now+int64(breakFor))
}

func (b *breaker) open() bool { return b.failures.Load() >= breakAfter }

func (b *breaker) succeeded() {
	if b.failures.Load() != 0 { // reading first avoids writes to a shared cache line
		b.failures.Store(0)
	}
}

func (b *breaker) failed(now int64) {
	if b.failures.Add(1) >= breakAfter {
		b.failures.Store(breakAfter) // prevents overflow
		b.retryAt.Store(now + int64(breakFor))
	}
}
