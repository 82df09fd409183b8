package semaphore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	batchCost     = 128                    // operations per script; a list of holders counts as 32
	scriptTimeout = time.Second            // timeout of one script
	heartbeat     = 500 * time.Millisecond // of a process with waiters: Redis considers it dead after four missed ones
	minBeat       = time.Millisecond       // minimum time until the next heartbeat
	restoreTries  = 2                      // in addition to one for each name
)

// A shard batches the operations on the semaphores of one hash tag. Its scripts run one after the other, so that operations are executed
// in the order in which they were sent.
type shard struct {
	set    *Set
	prefix string // of the keys

	batches *batch.Batcher[*op, reply]

	mu      sync.Mutex
	entries map[string]*queueEntry // guarded by mu: by key
	order   *list.List             // guarded by mu: of queueEntry, by arrival
	beat    *time.Timer            // guarded by mu: nil while there are no entries
	permits map[string][]*Permit   // guarded by mu: by key
	listens bool                   // guarded by mu
	ended   bool                   // guarded by mu
}

func newShard(s *Set, prefix string) *shard {
	sh := &shard{set: s, prefix: prefix, entries: map[string]*queueEntry{}, order: list.New(), permits: map[string][]*Permit{}}
	sh.batches = batch.New(batchCost, 1, sh.run).Weigh(batchCost, func(o *op) int { return 1 + o.cost })
	return sh
}

// run runs a batch of operations, unless the shard has ended.
func (sh *shard) run(_ context.Context, calls []*call) {
	sh.mu.Lock()
	ended := sh.ended
	sh.mu.Unlock()
	if ended {
		for _, c := range calls {
			c.Err = ErrClosed
		}
		return
	}
	ctx, cancel := context.WithTimeout(sh.set.ctx, scriptTimeout)
	defer cancel()
	sh.runScript(ctx, calls)
}

// do sends one op and waits for the reply, or for the end of ctx.
func (sh *shard) do(ctx context.Context, o *op) (reply, error) { return sh.batches.Do(ctx, o) }

// post sends an op without waiting.
func (sh *shard) post(o *op) { sh.batches.Post(o, nil) }

// known calls do. If Redis lacks a definition that do needs, known restores it and calls do again.
func (sh *shard) known(ctx context.Context, names []string, do func() error) error {
	for i := 0; ; i++ {
		err := do()
		var unknown *unknownError
		if !errors.As(err, &unknown) || i == len(names)+restoreTries {
			if err == nil {
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

func (sh *shard) acquire(ctx context.Context, t ticket, r Request) (h held, full *Refusal, err error) {
	err = sh.known(ctx, t.names, func() (err error) {
		if r.Try {
			h, full, err = sh.try(ctx, t)
		} else {
			h, full, err = sh.await(ctx, t)
		}
		return err
	})
	switch {
	case err != nil:
		return held{}, nil, named("acquire", t.names[0], err)
	case full == nil:
		sh.set.remember(t.names, h.lease)
	}
	return h, full, nil
}

func (sh *shard) try(ctx context.Context, t ticket) (held, *Refusal, error) {
	r, err := sh.do(ctx, askFor(&t, false))
	switch {
	case err != nil:
		sh.post(abandonmentOf(&t))
		return held{}, nil, err
	case r.word == isGranted:
		t.token = r.token
		return held{t, r.lease, r.sent}, nil, nil
	case r.word == isFull || r.word == isWaiting:
		return held{}, &Refusal{Position: r.place, Wait: r.wait}, nil
	}
	return held{}, nil, r.problem()
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
		if errors.Is(err, batch.ErrNotRun) && ctx.Err() != nil {
			sh.post(releaseOf(&t, t.token)) // its caller has gone, and the permit must not stay held
		}
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
	if err == nil || err == ErrPermitLost { //nolint:errorlint // wrapped it is named already
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

// end ends all entries and permits, and waits for the script that is under way.
func (sh *shard) end() {
	sh.mu.Lock()
	sh.ended = true
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
	sh.mu.Unlock()
	for _, p := range permits {
		p.lose(ErrClosed)
	}
	sh.batches.Wait()
}
