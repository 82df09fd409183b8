package reading

import (
	"sync"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// anyOrder is the id under which callers wait for a change of any order.
var anyOrder orders.ID

// Waiters wakes callers that wait for an order to change. Safe for concurrent use.
type Waiters struct {
	mu      sync.Mutex
	waiting map[orders.ID]map[chan struct{}]struct{} // guarded by mu
	stopped chan struct{}
	once    sync.Once
}

// NewWaiters returns none.
func NewWaiters() *Waiters {
	return &Waiters{waiting: make(map[orders.ID]map[chan struct{}]struct{}), stopped: make(chan struct{})}
}

// wait returns a channel that receives a value whenever the order may have changed, and a function that removes the channel.
func (w *Waiters) wait(id orders.ID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] == nil {
		w.waiting[id] = make(map[chan struct{}]struct{}, 1)
	}
	w.waiting[id][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[id], ch)
		if len(w.waiting[id]) == 0 {
			delete(w.waiting, id)
		}
	}
}

func (w *Waiters) wake(id orders.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.waiting[id] {
		core.Poke(ch)
	}
}

func (w *Waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, chs := range w.waiting {
		for ch := range chs {
			core.Poke(ch)
		}
	}
}

// Stop wakes all, for good.
func (w *Waiters) Stop() { w.once.Do(func() { close(w.stopped) }) }
