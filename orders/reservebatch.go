package orders

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

const (
	reserveMax    = 32 // orders of one script, which blocks its server for about a millisecond
	scriptsAtOnce = 2  // per item
)

// reserveCall is an order on its way through reserve.lua. The goroutine that closes done sets the result first.
type reserveCall struct {
	a          *Attempt
	mode       reserveMode
	r          Reservation
	generation int64             // of the Redis that was verified
	term       int64             // of the lease
	deadline   time.Time         // after it no caller waits any more
	from       trace.SpanContext // of the request
	out        Outcome
	err        error
	noted      bool   // the ledger has the order
	held       string // id of the committed order that has the identity; the database has its state
	done       chan struct{}
}

// wait returns when the order is decided, or ErrUnavailable at its deadline. The order is still decided then.
func (c *reserveCall) wait() error {
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
		select {
		case <-c.done:
			return c.err
		default:
			return fmt.Errorf("%w: no answer in time", ErrUnavailable)
		}
	}
}

// reserveBatcher lets orders of one item share a script: the fixed cost of a script is as high as the cost of one order. Orders
// that arrive while scriptsAtOnce scripts are under way form the next. Safe for concurrent use.
type reserveBatcher struct {
	decide func([]*reserveCall) // all of one item and mode
	mu     sync.Mutex
	// By mode and item, guarded by mu. Items without calls have no entry.
	items map[string]*itemCalls
}

type itemCalls struct {
	waiting  []*reserveCall
	underWay int
}

func newReserveBatcher(decide func([]*reserveCall)) *reserveBatcher {
	return &reserveBatcher{decide: decide, items: make(map[string]*itemCalls)}
}

// add queues a call. Calls with the same key are decided together.
func (b *reserveBatcher) add(key string, c *reserveCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	item, ok := b.items[key]
	if !ok {
		item = &itemCalls{}
		b.items[key] = item
	}
	item.waiting = append(item.waiting, c)
	if item.underWay < scriptsAtOnce {
		item.underWay++
		go b.work(key, item)
	}
}

// work decides waiting calls until there are none.
func (b *reserveBatcher) work(key string, item *itemCalls) {
	for {
		b.mu.Lock()
		batch := item.waiting[:min(len(item.waiting), reserveMax)]
		item.waiting = item.waiting[len(batch):]
		if len(batch) == 0 {
			if item.underWay--; item.underWay == 0 {
				delete(b.items, key)
			}
		}
		b.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		b.decide(batch)
	}
}

var errNotSent = errors.New("not sent in time")

// reserveBatch runs the script and records the results, also for callers that no longer wait.
func (s *Service) reserveBatch(batch []*reserveCall) {
	now := time.Now()
	alive := make([]*reserveCall, 0, len(batch))
	list := make([]Reservation, 0, len(batch))
	deadline := now // the latest of the batch
	for _, c := range batch {
		if now.After(c.deadline) {
			s.finish(c, unavailable(errNotSent))
			continue
		}
		alive, list = append(alive, c), append(list, c.r)
		if c.deadline.After(deadline) {
			deadline = c.deadline
		}
	}
	if len(alive) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	replies, err := s.runReserve(ctx, alive[0].a.cachedItem.keys, list, alive[0].mode)
	for i, c := range alive {
		if err != nil {
			s.finish(c, err)
			continue
		}
		s.finish(c, c.decided(replies[i]))
	}
}

// finish releases the room in the ledger if the order does not need it, and wakes the caller.
func (s *Service) finish(c *reserveCall, err error) {
	if c.err = err; !c.noted {
		s.ledger.release()
	}
	close(c.done)
}

// decided decodes the script's reply to one order, and records the order, if there is one.
func (c *reserveCall) decided(d *decoder) error {
	s, a := c.a.s, c.a
	word := d.string()
	s.clock.read(d.int64())
	switch word {
	case "forgotten":
		s.suspectForgotten(a.cachedItem)
		return ErrRecovering
	case "recovering":
		return ErrRecovering
	}
	free := int(d.int64())
	switch word {
	case "reserved", "held":
	case "unheld":
		s.ledger.drop(a.identity())
		return d.err
	default:
		var err error
		c.out, err = a.refused(word, free, d)
		return err
	}
	id, r, committed := d.holder(word, c.r)
	switch {
	case d.err != nil:
		return d.err
	case s.runIDs.Generation() != c.generation:
		// Another server answered than the one that was verified. If it keeps this reservation, the recovery finds it; the
		// order is not accepted here.
		return ErrRecovering
	case committed:
		c.held = id
		return nil
	}
	failpoint.Hit(failpoint.AfterReserve)
	if now, ok := s.lease.held(time.Now()); !ok || now != c.term {
		return errNoLease // a recovery may have gone on without this process since Redis was asked
	}
	if !s.ledger.add(a.identity(), r, c.term) {
		return ErrRecovering
	}
	c.noted = true
	s.offer(r, c.from)
	c.out = Outcome{Order: r.Accepted(), Replayed: r.ID != c.r.ID}
	return nil
}

// holder decodes which order has the identity: r, if it was reserved just now, or an earlier one. If the earlier one is
// committed, only the database has its state. Otherwise the process that reserved it may not have received the reply, so this
// process remembers it as well: every order that a client learns of has two copies.
func (d *decoder) holder(word string, r Reservation) (id string, of Reservation, committed bool) {
	id = d.string()
	if word == "reserved" {
		r.AcceptedMS = d.int64()
		r.Units = make([]int, r.Quantity)
		for i := range r.Units {
			r.Units[i] = int(d.int64())
		}
		return id, r, false
	}
	record := d.string()
	if record == "" {
		return id, Reservation{}, true
	}
	of, err := ParseReservation([]byte(record))
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%w: reservation: %w", ErrUnavailable, err)
	}
	return id, of, false
}

// reserveMode is on whose behalf reserve.lua runs: a buyer's, a late order's, or a late order's while the leader loads the sale;
// it is the leader's token then.
type reserveMode string

const (
	modeNew    reserveMode = ""
	modeRepeat reserveMode = "repeat" // for a buyer who may already hold the order: nothing is reserved
	modeLate   reserveMode = "late"   // the order was accepted in an earlier epoch
)

// runReserve runs the script for orders of one item, and returns one reply per order.
func (s *Service) runReserve(ctx context.Context, keys []string, list []Reservation, mode reserveMode) ([]*decoder, error) {
	args := make([]any, 2, 2+6*len(list))
	args[0], args[1] = string(mode), ""
	for i := range list {
		r, accepted := &list[i], ""
		if mode != modeNew && mode != modeRepeat {
			accepted = strconv.FormatInt(r.AcceptedMS, 10)
		}
		args = append(args, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, r.body(), accepted)
	}
	reply, err := s.runReserveScript(ctx, mode, keys, args)
	if err == nil && len(reply) != len(list) {
		err = fmt.Errorf("reserve replied %d answers to %d orders", len(reply), len(list))
	}
	if err != nil {
		return nil, unavailable(err)
	}
	decoders := make([]*decoder, len(reply))
	for i := range reply {
		items, _ := reply[i].([]any)
		decoders[i] = &decoder{reply: items}
	}
	return decoders, nil
}
