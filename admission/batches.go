package admission

import (
	"context"
	"errors"
	"sync"
)

const (
	batchSize  = 96 // calls in one script: half a millisecond of Redis' time
	maxSenders = 3  // scripts under way: the next ones are packed while Redis works
	maxWaiting = 16384
)

// ErrTooMany means that so many calls wait for the store that those which come now would wait in vain.
var ErrTooMany = errors.New("admission: too many calls wait for redis")

// An Asked is one call on its way through Redis: Call goes there, and whoever runs it sets Reply or Err.
type Asked[C, R any] struct {
	Call  C
	Reply R
	Err   error

	ctx  context.Context
	done chan struct{} // closed when Reply and Err are there
}

// Batches gather calls that wait at the same time, so that one script answers many. What surrounds a decision takes Redis and the client longer
// than the decision itself, so a script that decides many is worth as many scripts: twice as many decisions a second, and an answer sooner
// for each. A call that finds nobody else waiting is sent at once, alone. Nothing runs while nobody asks.
//
// Make them with NewBatches; they are safe for concurrent use.
type Batches[C, R any] struct {
	run func(ctx context.Context, calls []*Asked[C, R])

	mu      sync.Mutex
	waiting []*Asked[C, R] // guarded by mu
	senders int            // guarded by mu
}

// NewBatches returns batches that run answers, up to 96 calls at a time and three times at once. The keys of all calls of a batch must have one slot.
func NewBatches[C, R any](run func(ctx context.Context, calls []*Asked[C, R])) *Batches[C, R] {
	return &Batches[C, R]{run: run}
}

// Do waits for the answer to call, or until ctx ends. A call whose ctx ends before it is sent is not sent. It returns ErrTooMany at once
// where too many wait.
func (b *Batches[C, R]) Do(ctx context.Context, call C) (R, error) {
	a := &Asked[C, R]{Call: call, ctx: ctx, done: make(chan struct{})}
	if err := b.add(a); err != nil {
		return a.Reply, err
	}
	select {
	case <-a.done:
		return a.Reply, a.Err
	case <-ctx.Done():
		var none R
		return none, ctx.Err()
	}
}

func (b *Batches[C, R]) add(a *Asked[C, R]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxWaiting {
		return ErrTooMany
	}
	b.waiting = append(b.waiting, a)
	if b.senders < maxSenders {
		b.senders++
		go b.send()
	}
	return nil
}

// send sends what waits, until nothing does.
func (b *Batches[C, R]) send() {
	for {
		batch := b.next()
		if batch == nil {
			return
		}
		b.run(context.Background(), batch) // one caller's patience is not another's; the client has its own time-outs
		for _, a := range batch {
			close(a.done)
		}
	}
}

// next takes the calls that have waited longest, or nil: then the sender that asked has ended.
func (b *Batches[C, R]) next() []*Asked[C, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*Asked[C, R]
	for len(b.waiting) > 0 && len(batch) < batchSize {
		a := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		if a.ctx.Err() == nil {
			batch = append(batch, a)
		}
	}
	if batch == nil {
		b.senders--
	}
	return batch
}
