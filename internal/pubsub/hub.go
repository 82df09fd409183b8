// Package pubsub passes messages: between the parts of one process with a Hub, and between processes through channels of Redis.
package pubsub

import (
	"context"
	"slices"
	"sync"
)

// maxQueuedMessages is how many messages can be queued for one listener. On overflow they are replaced by the empty message, which means
// that messages have been missed.
const maxQueuedMessages = 1024

// A Hub passes messages on to listeners in the same process, by channel. The zero value is ready to use. It is safe for concurrent use.
type Hub struct {
	mu sync.Mutex
	by map[string][]*listener // guarded by mu; by channel
}

// A listener is called back in a separate goroutine, so that senders never block.
type listener struct {
	mu    sync.Mutex
	queue []string      // guarded by mu
	wake  chan struct{} // capacity 1: queue is not empty
}

// Listen calls receive once with the empty message, and then with every message on the channel, until ctx ends; it then returns nil.
func (h *Hub) Listen(ctx context.Context, channel string, receive func(message string)) error {
	l := &listener{queue: []string{""}, wake: make(chan struct{}, 1)}
	l.wake <- struct{}{}
	h.join(channel, l)
	defer h.leave(channel, l)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			for _, message := range l.take() {
				receive(message)
			}
		}
	}
}

// Publish sends a message to the listeners of a channel. It does not block.
func (h *Hub) Publish(channel, message string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.by[channel] {
		l.send(message)
	}
}

func (h *Hub) join(channel string, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string][]*listener{}
	}
	h.by[channel] = append(h.by[channel], l)
}

func (h *Hub) leave(channel string, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.by[channel], func(other *listener) bool { return other == l })
	if len(left) == 0 {
		delete(h.by, channel)
		return
	}
	h.by[channel] = left
}

func (l *listener) send(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue = append(l.queue, message); len(l.queue) > maxQueuedMessages {
		l.queue = []string{""}
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages := l.queue
	l.queue = nil
	return messages
}
