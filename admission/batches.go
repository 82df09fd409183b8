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

// errTooMany means that so many calls wait for Redis that those which come now would wait in vain.
var errTooMany = errors.New("too many decisions wait for redis")

// An asked call is one on its way through Redis.
type asked struct {
	call   Call
	ctx    context.Context
	counts []Count
	known  []bool // see decodeCounts
	err    error
	done   chan struct{} // closed when counts and err are there
}

// Batches gather calls that wait at the same time. What surrounds a decision takes Redis and the client longer than the decision itself,
// so a script that decides many is worth as many scripts: twice as many decisions a second, and an answer sooner for each. A call
// that finds nobody else waiting is sent at once, alone. Nothing runs while nobody asks.
type batches struct {
	run func(ctx context.Context, calls []*asked)

	mu      sync.Mutex
	waiting []*asked // guarded by mu
	senders int      // guarded by mu
}

// decide waits for the answer to call, or until ctx ends. A call whose ctx ends before it is sent is not sent.
func (b *batches) decide(ctx context.Context, call Call) ([]Count, error) {
	a := &asked{call: call, ctx: ctx, done: make(chan struct{})}
	if err := b.add(a); err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.counts, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *batches) add(a *asked) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxWaiting {
		return errTooMany
	}
	b.waiting = append(b.waiting, a)
	if b.senders < maxSenders {
		b.senders++
		go b.send()
	}
	return nil
}

// send sends what waits, until nothing does.
func (b *batches) send() {
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
func (b *batches) next() []*asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*asked
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
