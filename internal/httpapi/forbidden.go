package httpapi

import (
	"sync"
	"time"
)

// forbiddenCalls let one event a minute through of a token and an operation that it has no role for: whoever may do nothing else shall not fill
// the database. There are no more of them than tokens times operations. The zero value is ready; safe for concurrent use.
type forbiddenCalls struct {
	mu   sync.Mutex
	last map[[2]string]*forbiddenCall // guarded by mu; by token and operation
}

type forbiddenCall struct {
	at   time.Time // of the last event
	left int       // how many have left none since
}

// due tells whether a refusal leaves an event, and how many have left none since the one before.
func (f *forbiddenCalls) due(token, operation string, now time.Time) (before int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[[2]string]*forbiddenCall{}
	}
	was := f.last[[2]string{token, operation}]
	switch {
	case was == nil:
	case now.Sub(was.at) < time.Minute:
		was.left++
		return 0, false
	default:
		before = was.left
	}
	f.last[[2]string{token, operation}] = &forbiddenCall{at: now}
	return before, true
}
