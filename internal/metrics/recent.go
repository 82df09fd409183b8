package metrics

import (
	"context"
	"sync"
	"time"
)

const (
	readAgain  = 3 * time.Second  // for so long scrapes by several see the same
	readWithin = 2 * time.Second  // a scrape waits for no more, well below Prometheus' ten seconds
	readStale  = 10 * time.Second // what is older is not told any more
)

// recent is something that has to be asked for over the network, as it was found lately. It asks once at a time, however many want to know.
type recent[T any] struct {
	read func(context.Context) (T, error)

	mu      sync.Mutex
	reading chan struct{} // guarded by mu; closed when the reading under way ends, nil if none is
	value   T             // guarded by mu
	known   bool          // guarded by mu: the last reading brought value
	at      time.Time     // guarded by mu: of its end
}

func newRecent[T any](read func(context.Context) (T, error)) *recent[T] {
	return &recent[T]{read: read}
}

// wait returns what is found now, or was a moment ago. It is not known while whoever was asked does not answer.
func (r *recent[T]) wait() (value T, known bool) {
	if reading := r.refresh(); reading != nil {
		select {
		case <-reading:
		case <-time.After(readWithin):
			return value, false
		}
	}
	return r.last()
}

// latest returns what was found lately, at once, and has it read again if that was a while ago.
func (r *recent[T]) latest() (value T, known bool) {
	r.refresh()
	return r.last()
}

func (r *recent[T]) last() (value T, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known || time.Since(r.at) > readStale {
		return value, false
	}
	return r.value, true
}

// refresh returns a channel that is closed when the reading under way ends; nil says that none is needed.
func (r *recent[T]) refresh() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading == nil && time.Since(r.at) >= readAgain {
		r.reading = make(chan struct{})
		go r.readOnce() // ends by itself: clients bound what takes no context
	}
	return r.reading
}

func (r *recent[T]) readOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	value, err := r.read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value, r.known, r.at = value, err == nil, time.Now()
	close(r.reading)
	r.reading = nil
}
