package semaphore

import (
	"container/list"
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// A queueEntry is a place in the queue with its callers in this process: several if a request was sent more than once.
type queueEntry struct {
	ticket ticket
	at     *list.Element

	// All guarded by the shard's mu.
	callers  []*caller
	failed   int           // asks that timed out before it was queued
	queued   bool          // Redis has confirmed that it is in the queue
	guest    bool          // the place was created by another process
	asking   int           // asks in flight
	place    int           // last known position; 0: none
	expected time.Duration // estimated time until its turn
	over     bool          // answered, or without callers
}

// A caller is one call of Acquire that waits.
type caller struct {
	entry  *queueEntry
	answer chan answered // capacity 1
}

type answered struct {
	held held
	err  error
}

const maxRetries = 2 // how often an entry asks again before it fails with the timeout

// await waits for a permit until ctx ends.
func (sh *shard) await(ctx context.Context, t ticket) (held, *Refusal, error) {
	c, err := sh.join(t)
	if err != nil {
		return held{}, nil, err
	}
	select {
	case a := <-c.answer:
		return a.held, nil, a.err
	case <-ctx.Done():
		return sh.quit(ctx, c)
	}
}

// join adds a caller to the queue.
func (sh *shard) join(t ticket) (*caller, error) {
	sh.mu.Lock()
	if sh.ended {
		sh.mu.Unlock()
		return nil, ErrClosed
	}
	w := sh.entries[t.key]
	if w == nil {
		w = &queueEntry{ticket: t}
		w.at = sh.order.PushBack(w)
		sh.entries[t.key] = w
	} else if w.ticket.weight != t.weight || !slices.Equal(w.ticket.names, t.names) {
		sh.mu.Unlock()
		conflict := reply{word: isConflict, name: t.names[0]}
		return nil, conflict.problem()
	}
	c := &caller{w, make(chan answered, 1)}
	w.callers = append(w.callers, c)
	if sh.beat == nil {
		sh.beat = time.AfterFunc(heartbeat, sh.beatNow)
	}
	sh.ask(w, false)
	sh.mu.Unlock()
	return c, nil
}

// quit removes a caller from the queue, unless the answer has arrived.
func (sh *shard) quit(ctx context.Context, c *caller) (held, *Refusal, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	select {
	case a := <-c.answer:
		return a.held, nil, a.err
	default:
	}
	w := c.entry
	for i, other := range w.callers {
		if other == c {
			w.callers = append(w.callers[:i:i], w.callers[i+1:]...)
		}
	}
	if len(w.callers) == 0 {
		sh.remove(w)
		sh.post(abandonmentOf(&w.ticket))
	}
	if w.place == 0 {
		return held{}, nil, ctx.Err()
	}
	return held{}, &Refusal{Position: w.place, Wait: w.expected}, nil
}

// remove removes w. The caller holds mu.
func (sh *shard) remove(w *queueEntry) {
	w.over = true
	sh.order.Remove(w.at)
	delete(sh.entries, w.ticket.key)
}

// answer passes the result to all callers of w. The caller holds mu.
func (sh *shard) answer(w *queueEntry, h held, err error) {
	sh.remove(w)
	for _, c := range w.callers {
		c.answer <- answered{h, err}
	}
}

// ask asks for the permit of w, for the first time or again. The caller holds mu.
func (sh *shard) ask(w *queueEntry, beat bool) {
	w.asking++
	sh.batches.Post(askFor(&w.ticket, true), func(r reply, err error) { sh.asked(w, r, err, beat) })
}

// asked handles the reply to an ask.
func (sh *shard) asked(w *queueEntry, r reply, err error, beat bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w.asking--
	if beat && sh.beat != nil && err == nil && r.word != isWaiting {
		sh.beat.Reset(0) // no message announced it: there may be more
	}
	switch {
	case w.over:
	case err == nil && r.word == isGranted:
		t := w.ticket
		t.token = r.token
		sh.answer(w, held{t, r.lease, r.sent}, nil)
	case err == nil && r.word == isWaiting:
		sh.listen()
		again := r.fresh && w.queued
		w.guest = w.guest || !r.fresh && !w.queued
		w.queued, w.place, w.expected = true, r.place, r.wait
		if again {
			sh.askAgain(w)
		}
		if sh.beat != nil && r.soon < heartbeat && beat {
			sh.beat.Reset(max(r.soon, minBeat))
		}
	case err != nil && w.queued && !sh.ended:
		// It keeps its place and asks again with the next heartbeat.
	case isTimeout(err) && w.failed < maxRetries && !sh.ended:
		w.failed++ // overload is not an outage
		sh.ask(w, false)
	case err != nil:
		sh.answer(w, held{}, err)
		sh.post(abandonmentOf(&w.ticket)) // the outcome in Redis is unknown
	default:
		sh.answer(w, held{}, r.problem())
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// askAgain is called when w was in the queue and no longer is: Redis has lost its data, or has considered this process dead. All other
// entries ask again in their order. The caller holds mu.
func (sh *shard) askAgain(first *queueEntry) {
	for at := sh.order.Front(); at != nil; at = at.Next() {
		if w := at.Value.(*queueEntry); w != first && w.queued {
			w.queued = false
			sh.ask(w, false)
		}
	}
}

// beatNow sends a heartbeat. It asks again for the first entry of each semaphore, and for entries whose place another process
// created. Redis thereby sees that the process is alive, lost messages are made up for, and expired leases are noticed.
func (sh *shard) beatNow() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.order.Len() == 0 || sh.ended {
		sh.beat = nil
		return
	}
	sh.beat.Reset(heartbeat)
	seen := map[string]bool{}
	for at := sh.order.Front(); at != nil; at = at.Next() {
		w, first := at.Value.(*queueEntry), false
		for _, name := range w.ticket.names {
			first = first || !seen[name]
			seen[name] = true
		}
		if (first || w.guest) && w.asking == 0 {
			sh.ask(w, true)
		}
	}
}

// beatSoon sends a heartbeat at once if there are entries.
func (sh *shard) beatSoon() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.beat != nil {
		sh.beat.Reset(0)
	}
}

// askNow asks again for an announced permit of name. If no caller waits for it any more, the permit is given up; otherwise Redis would
// consider the process dead.
func (sh *shard) askNow(key, name string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if w := sh.entries[key]; w != nil {
		sh.ask(w, false)
	} else {
		sh.post(releaseOf(&ticket{key: key, names: []string{name}}, place))
	}
}

// granted handles a permit that came with the reply to another operation. If no caller waits for it any more, it is given back,
// unless a later call with the same id has got it. If it is for an earlier attempt, that has already been given up, and the
// present one will have asked itself.
func (sh *shard) granted(h held) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w := sh.entries[h.key]
	switch {
	case w == nil:
		sh.post(abandonmentOf(&h.ticket))
		return
	case h.attempt != w.ticket.attempt:
		return
	}
	token := h.token
	h.ticket = w.ticket
	h.token = token
	sh.answer(w, h, nil)
}
