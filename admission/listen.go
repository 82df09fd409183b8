package admission

import (
	"context"
	"slices"
	"sync"
)

// maxUnheard is how many subjects can be queued for one listener. On overflow they are replaced by the empty subject, which stands for
// all.
const maxUnheard = 1024

// listeners are the listeners of a MemoryStore. The zero value has none. It is safe for concurrent use.
type listeners struct {
	mu sync.Mutex
	by map[string][]*listener // guarded by mu; by channel
}

// A listener is called back in a separate goroutine, so that senders never block.
type listener struct {
	mu      sync.Mutex
	unheard []string      // guarded by mu
	wake    chan struct{} // capacity 1: unheard is not empty
}

// Listen implements Store.
func (s *MemoryStore) Listen(ctx context.Context, channel string, heard func(subject string)) error {
	l := &listener{unheard: []string{""}, wake: make(chan struct{}, 1)}
	l.wake <- struct{}{}
	s.listeners.join(channel, l)
	defer s.listeners.leave(channel, l)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			for _, subject := range l.take() {
				heard(subject)
			}
		}
	}
}

// tell notifies the listeners of a channel. It does not block.
func (s *MemoryStore) tell(channel, subject string) {
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	for _, l := range s.listeners.by[channel] {
		l.tell(subject)
	}
}

func (ls *listeners) join(channel string, l *listener) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.by == nil {
		ls.by = map[string][]*listener{}
	}
	ls.by[channel] = append(ls.by[channel], l)
}

func (ls *listeners) leave(channel string, l *listener) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	left := slices.DeleteFunc(ls.by[channel], func(other *listener) bool { return other == l })
	if len(left) == 0 {
		delete(ls.by, channel)
		return
	}
	ls.by[channel] = left
}

func (l *listener) tell(subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unheard = append(l.unheard, subject); len(l.unheard) > maxUnheard {
		l.unheard = []string{""}
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	subjects := l.unheard
	l.unheard = nil
	return subjects
}
