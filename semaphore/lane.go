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
	batch      = 128                    // operations per script; a list of holders counts as 32
	patience   = time.Second            // timeout of one script
	heartbeat  = 500 * time.Millisecond // of a process with waiters: Redis considers it dead after four missed ones
	soonest    = time.Millisecond       // minimum time until the next heartbeat
	tries      = 2                      // in addition to one for each name
	lookAround = time.Second            // minimum time between two reloads of a cluster's topology
)

// A lane batches the operations on the semaphores of one hash tag. Its scripts run one after the other, so that operations are executed
// in the order in which they were sent.
type lane struct {
	set    *Set
	prefix string // of the keys

	mu      sync.Mutex
	ops     []*op                // guarded by mu: not sent yet
	sending bool                 // guarded by mu
	waits   map[string]*wait     // guarded by mu: by key
	order   *list.List           // guarded by mu: of waits, by arrival
	beat    *time.Timer          // guarded by mu: nil while there are no waits
	permits map[string][]*Permit // guarded by mu: by key
	sub     *redis.PubSub        // guarded by mu: of a cluster
	listens bool                 // guarded by mu
	ended   bool                 // guarded by mu

	looked time.Time // time of the last topology reload; used by the sender only
}

func newLane(s *Set, prefix string) *lane {
	return &lane{set: s, prefix: prefix, waits: map[string]*wait{}, order: list.New(), permits: map[string][]*Permit{}}
}

// send queues ops for the sender. They fail if the lane has ended.
func (l *lane) send(ops ...*op) {
	l.mu.Lock()
	ok := l.enqueue(ops...)
	l.mu.Unlock()
	if !ok {
		for _, o := range ops {
			o.heard(reply{err: ErrClosed})
		}
	}
}

// enqueue is send; the caller holds mu. It returns false if the lane has ended; heard is then never called.
func (l *lane) enqueue(ops ...*op) bool {
	if l.ended {
		return false
	}
	if !l.sending && !l.set.start(l.sendAll) {
		return false
	}
	l.sending = true
	l.ops = append(l.ops, ops...)
	return true
}

// sendAll sends queued operations until the queue is empty.
func (l *lane) sendAll() {
	for {
		l.mu.Lock()
		n := 0
		for cost := 0; n < len(l.ops) && cost < batch; n++ {
			cost += 1 + l.ops[n].cost
		}
		ops := l.ops[:n:n]
		if l.ops = l.ops[n:]; n == 0 {
			l.ops, l.sending = nil, false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(l.set.ctx, patience)
		l.runScript(ctx, ops)
		cancel()
		runtime.Gosched() // lets callers that have just been answered add their next operation to the batch
	}
}

// do sends one op and waits for the reply, or for the end of ctx.
func (l *lane) do(ctx context.Context, o *op) (reply, error) {
	replies := make(chan reply, 1)
	o.heard = func(r reply) { replies <- r }
	l.send(o)
	select {
	case r := <-replies:
		return r, r.err
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// known calls do. If Redis lacks a definition that do needs, known restores it and calls do again.
func (l *lane) known(ctx context.Context, names []string, do func() error) error {
	for i := 0; ; i++ {
		err := do()
		var unknown *unknownError
		if !errors.As(err, &unknown) || i == len(names)+tries {
			if err == nil || errors.Is(err, ErrAtCapacity) {
				l.set.remember(names, 0)
			}
			return err
		}
		if err := l.set.restore(ctx, unknown.name); err != nil {
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

func (l *lane) acquire(ctx context.Context, t ticket, r Request) (h held, err error) {
	err = l.known(ctx, t.names, func() (err error) {
		if r.Try {
			h, err = l.try(ctx, t, r.ID != "")
		} else {
			h, err = l.await(ctx, t, r.ID != "")
		}
		return err
	})
	if err != nil {
		return held{}, named("acquire", t.names[0], err)
	}
	l.set.remember(t.names, h.lease)
	return h, nil
}

func (l *lane) try(ctx context.Context, t ticket, shared bool) (held, error) {
	r, err := l.do(ctx, askFor(&t, false))
	switch {
	case err != nil:
		l.send(releaseOf(&t, abandoned(shared)))
		return held{}, err
	case r.word == isGranted:
		t.token = r.token
		return held{t, r.lease, r.sent}, nil
	case r.word == isFull || r.word == isWaiting:
		return held{}, &CapacityError{Name: t.names[0], Position: r.place, Wait: r.wait}
	}
	return held{}, r.problem()
}

// abandoned returns what to release if the outcome of an acquisition is unknown. If its ID was set by the caller, the request may have
// been sent twice and the other one may hold the permit; then only the place in the queue is given up.
func abandoned(shared bool) int64 {
	if shared {
		return place
	}
	return everything
}

// renew returns the length of the lease, and the latest possible start of it.
func (l *lane) renew(ctx context.Context, t ticket) (lease time.Duration, since time.Time, err error) {
	err = l.known(ctx, t.names, func() error {
		r, err := l.do(ctx, renewalOf(&t))
		if err != nil {
			return err
		}
		if r.word != isRenewed {
			return r.problem()
		}
		lease, since = r.lease, r.sent
		l.set.remember(t.names, lease)
		return nil
	})
	return lease, since, named("renew", t.names[0], err)
}

// release retries until ctx ends: releasing twice is harmless, while a missed release blocks the permit for a lease.
func (l *lane) release(ctx context.Context, t ticket) error {
	for {
		_, err := l.do(ctx, releaseOf(&t, t.token))
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return named("release", t.names[0], err)
		}
		if !periodic.Pause(ctx, patience/10) {
			return named("release", t.names[0], err)
		}
	}
}

// define defines name; if absent is set, only if it is undefined.
func (l *lane) define(ctx context.Context, name string, def Definition, absent bool) error {
	r, err := l.do(ctx, &op{
		word: doDefine, names: []string{name},
		args: []any{def.Limit, def.Lease.Microseconds(), l.set.forgotten(name, &def).Microseconds(), flag(absent)},
	})
	if err == nil && r.word != isDefined {
		err = r.problem()
	}
	if err == nil && def.Limit >= 0 {
		l.set.remember([]string{name}, def.Lease)
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

// hold registers p for notices of its release by other callers. It returns false if the lane has ended.
func (l *lane) hold(p *Permit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.permits[p.ticket.key] = append(l.permits[p.ticket.key], p)
	l.listen()
	return true
}

// keep is Set.keep for a cluster.
func (l *lane) keep(sub *redis.PubSub) *redis.PubSub {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = sub.Close()
		return nil
	}
	l.sub = sub
	return sub
}

func (l *lane) letGo(p *Permit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []*Permit
	for _, other := range l.permits[p.ticket.key] {
		if other != p {
			rest = append(rest, other)
		}
	}
	if rest == nil {
		delete(l.permits, p.ticket.key)
	} else {
		l.permits[p.ticket.key] = rest
	}
}

// end ends all waits and permits.
func (l *lane) end() {
	l.mu.Lock()
	l.ended = true
	ops := l.ops
	l.ops = nil
	if l.beat != nil {
		l.beat.Stop()
	}
	for _, w := range l.waits {
		l.answer(w, held{}, ErrClosed)
	}
	var permits []*Permit
	for _, p := range l.permits {
		permits = append(permits, p...)
	}
	sub := l.sub
	l.mu.Unlock()
	for _, o := range ops {
		o.heard(reply{err: ErrClosed})
	}
	for _, p := range permits {
		p.lose(ErrClosed)
	}
	if sub != nil {
		_ = sub.Close()
	}
}
