package semaphore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	batch         = 128                    // operations per script; a list of holders counts as 32
	scriptTimeout = time.Second            // timeout of one script
	heartbeat     = 500 * time.Millisecond // of a process with waiters: Redis considers it dead after four missed ones
	minBeat       = time.Millisecond       // minimum time until the next heartbeat
	restoreTries  = 2                      // in addition to one for each name
	reloadEvery   = time.Second            // minimum time between two reloads of a cluster's topology
)

// A shard batches the operations on the semaphores of one hash tag. Its scripts run one after the other, so that operations are executed
// in the order in which they were sent.
type shard struct {
	set    *Set
	prefix string // of the keys

	mu      sync.Mutex
	ops     []*op                  // guarded by mu: not sent yet
	sending bool                   // guarded by mu
	entries map[string]*queueEntry // guarded by mu: by key
	order   *list.List             // guarded by mu: of queueEntry, by arrival
	beat    *time.Timer            // guarded by mu: nil while there are no entries
	permits map[string][]*Permit   // guarded by mu: by key
	sub     *redis.PubSub          // guarded by mu: of a cluster
	listens bool                   // guarded by mu
	ended   bool                   // guarded by mu

	reloaded time.Time // time of the last topology reload; used by the sender only
}

func newShard(s *Set, prefix string) *shard {
	return &shard{set: s, prefix: prefix, entries: map[string]*queueEntry{}, order: list.New(), permits: map[string][]*Permit{}}
}

// send queues ops for the sender. They fail if the shard has ended.
func (sh *shard) send(ops ...*op) {
	sh.mu.Lock()
	ok := sh.enqueue(ops...)
	sh.mu.Unlock()
	if !ok {
		for _, o := range ops {
			o.done(reply{err: ErrClosed})
		}
	}
}

// enqueue is send; the caller holds mu. It returns false if the shard has ended; done is then never called.
func (sh *shard) enqueue(ops ...*op) bool {
	if sh.ended {
		return false
	}
	if !sh.sending && !sh.set.start(sh.sendAll) {
		return false
	}
	sh.sending = true
	sh.ops = append(sh.ops, ops...)
	return true
}

// sendAll sends queued operations until the queue is empty.
func (sh *shard) sendAll() {
	for {
		sh.mu.Lock()
		n := 0
		for cost := 0; n < len(sh.ops) && cost < batch; n++ {
			cost += 1 + sh.ops[n].cost
		}
		ops := sh.ops[:n:n]
		if sh.ops = sh.ops[n:]; n == 0 {
			sh.ops, sh.sending = nil, false
			sh.mu.Unlock()
			return
		}
		sh.mu.Unlock()
		ctx, cancel := context.WithTimeout(sh.set.ctx, scriptTimeout)
		sh.runScript(ctx, ops)
		cancel()
		runtime.Gosched() // lets callers that have just been answered add their next operation to the batch
	}
}

// do sends one op and waits for the reply, or for the end of ctx.
func (sh *shard) do(ctx context.Context, o *op) (reply, error) {
	replies := make(chan reply, 1)
	o.done = func(r reply) { replies <- r }
	sh.send(o)
	select {
	case r := <-replies:
		return r, r.err
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// known calls do. If Redis lacks a definition that do needs, known restores it and calls do again.
func (sh *shard) known(ctx context.Context, names []string, do func() error) error {
	for i := 0; ; i++ {
		err := do()
		var unknown *unknownError
		if !errors.As(err, &unknown) || i == len(names)+restoreTries {
			if err == nil || errors.Is(err, ErrAtCapacity) {
				sh.set.remember(names, 0)
			}
			return err
		}
		if err := sh.set.restore(ctx, unknown.name); err != nil {
			return err
		}
	}
}

// held is a newly granted permit.
type held struct {
	ticket
	lease time.Duration
	since time.Time // no later than the start of the lease
}

func (sh *shard) acquire(ctx context.Context, t ticket, r Request) (h held, err error) {
	err = sh.known(ctx, t.names, func() (err error) {
		if r.Try {
			h, err = sh.try(ctx, t)
		} else {
			h, err = sh.await(ctx, t)
		}
		return err
	})
	if err != nil {
		return held{}, named("acquire", t.names[0], err)
	}
	sh.set.remember(t.names, h.lease)
	return h, nil
}

func (sh *shard) try(ctx context.Context, t ticket) (held, error) {
	r, err := sh.do(ctx, askFor(&t, false))
	switch {
	case err != nil:
		sh.send(abandonmentOf(&t))
		return held{}, err
	case r.word == isGranted:
		t.token = r.token
		return held{t, r.lease, r.sent}, nil
	case r.word == isFull || r.word == isWaiting:
		return held{}, &CapacityError{Name: t.names[0], Position: r.place, Wait: r.wait}
	}
	return held{}, r.problem()
}

// renew returns the length of the lease, and the latest possible start of it.
func (sh *shard) renew(ctx context.Context, t ticket) (lease time.Duration, since time.Time, err error) {
	err = sh.known(ctx, t.names, func() error {
		r, err := sh.do(ctx, renewalOf(&t))
		if err != nil {
			return err
		}
		if r.word != isRenewed {
			return r.problem()
		}
		lease, since = r.lease, r.sent
		sh.set.remember(t.names, lease)
		return nil
	})
	return lease, since, named("renew", t.names[0], err)
}

// release retries until ctx ends: releasing twice is harmless, while a missed release blocks the permit for a lease.
func (sh *shard) release(ctx context.Context, t ticket) error {
	for {
		_, err := sh.do(ctx, releaseOf(&t, t.token))
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return named("release", t.names[0], err)
		}
		if !periodic.Pause(ctx, scriptTimeout/10) {
			return named("release", t.names[0], err)
		}
	}
}

// define defines name; if absent is set, only if it is undefined.
func (sh *shard) define(ctx context.Context, name string, def Definition, absent bool) error {
	r, err := sh.do(ctx, &op{
		word: doDefine, names: []string{name},
		args: []any{def.Limit, def.Lease.Microseconds(), sh.set.forgotten(name, &def).Microseconds(), flag(absent)},
	})
	if err == nil && r.word != isDefined {
		err = r.problem()
	}
	if err == nil && def.Limit >= 0 {
		sh.set.remember([]string{name}, def.Lease)
	}
	return named("define", name, err)
}

func named(what, name string, err error) error {
	var capacity *CapacityError
	if err == nil || errors.As(err, &capacity) || err == ErrPermitLost { //nolint:errorlint // the wrapped errors are self-explanatory
		return err
	}
	return fmt.Errorf("semaphore: %s %s: %w", what, name, err)
}

// register registers p for notices of its release by other callers. It returns false if the shard has ended.
func (sh *shard) register(p *Permit) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.ended {
		return false
	}
	sh.permits[p.ticket.key] = append(sh.permits[p.ticket.key], p)
	sh.listen()
	return true
}

// keep is Set.keep for a cluster.
func (sh *shard) keep(sub *redis.PubSub) *redis.PubSub {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.ended {
		_ = sub.Close()
		return nil
	}
	sh.sub = sub
	return sub
}

func (sh *shard) unregister(p *Permit) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var rest []*Permit
	for _, other := range sh.permits[p.ticket.key] {
		if other != p {
			rest = append(rest, other)
		}
	}
	if rest == nil {
		delete(sh.permits, p.ticket.key)
	} else {
		sh.permits[p.ticket.key] = rest
	}
}

// end ends all entries and permits.
func (sh *shard) end() {
	sh.mu.Lock()
	sh.ended = true
	ops := sh.ops
	sh.ops = nil
	if sh.beat != nil {
		sh.beat.Stop()
	}
	for _, w := range sh.entries {
		sh.answer(w, held{}, ErrClosed)
	}
	var permits []*Permit
	for _, p := range sh.permits {
		permits = append(permits, p...)
	}
	sub := sh.sub
	sh.mu.Unlock()
	for _, o := range ops {
		o.done(reply{err: ErrClosed})
	}
	for _, p := range permits {
		p.lose(ErrClosed)
	}
	if sub != nil {
		_ = sub.Close()
	}
}
