package audit

import (
	"sync"
	"time"
)

// forbiddenCalls limits audit events of calls that a token's role does not permit to one a minute per token and operation, so
// that such calls cannot fill the database. It holds at most one entry per token and operation. The zero value is ready; safe
// for concurrent use.
type forbiddenCalls struct {
	mu   sync.Mutex
	last map[[2]string]*forbiddenCall // guarded by mu; by token and operation
}

type forbiddenCall struct {
	at   time.Time // of the last event
	left int       // calls without an event since then
}

// due reports whether a refusal stores an event, and how many stored none since the one before.
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
