package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/periodic"
)

// Action is what a payment provider has to do about a capture.
type Action string

// The actions. A refund is for a capture that found no order waiting for it.
const (
	ActionNone   Action = "none"
	ActionRefund Action = "refund"
)

// Payment is a capture as it was recorded. The action is that of its first
// recording; the status is the order's now.
type Payment struct {
	Order     ID
	Reference string // the payment provider's, unique among all payments
	Action    Action
	Status    Status
}

const maxReference = 255 // characters

// commitWithin is how long a cancellation or a payment waits for an order that
// is not committed yet.
const commitWithin = 2 * time.Second

// lockedPoll is how often Cancel retries an order that another transaction has locked.
const lockedPoll = 10 * time.Millisecond

// lifecycle changes orders that are committed: it pays, cancels and expires them, and returns their units.
type lifecycle struct {
	*core
	sales      *catalogWatch
	notifier   *notifier
	reader     *reader
	paying     *batch.Batcher[capture, bool] // whether the order was paid
	cancelling *batch.Batcher[ID, bool]      // whether the order was cancelled
}

// Pay records that the order was paid for. The reference is the payment provider's; repeating it returns the same payment.
// An order that no longer waits for payment, or never did, keeps its status, and the capture is to be refunded. It returns
// ErrInvalid, ErrUnknownOrder, ErrConflict if the reference belongs to another order, and ErrUnavailable or ErrRecovering
// when the call has to be repeated. Captures of uncommitted orders are not recorded: those of a dead letter return
// ErrUncommitted until it is replayed.
func (lc *lifecycle) Pay(ctx context.Context, id ID, reference string) (Payment, error) {
	if strings.TrimSpace(reference) == "" {
		return Payment{}, failure.At(ErrInvalid, "reference", "must not be empty or blank")
	}
	if err := printable("reference", reference, maxReference); err != nil {
		return Payment{}, err
	}
	if lc.foreign.Load() {
		return Payment{}, errForeign
	}
	if !lc.sales.issued(id) {
		return Payment{}, ErrUnknownOrder
	}
	paid, err := batched(ctx, lc.paying, capture{id, reference})
	if err != nil {
		return Payment{}, err
	}
	if paid {
		return Payment{Order: id, Reference: reference, Action: ActionNone, Status: StatusPaid}, nil
	}
	p, err := lc.store.Capture(ctx, id, reference)
	if errors.Is(err, ErrUnknownOrder) {
		if _, err = lc.awaitCommit(ctx, id, Viewer{All: true}); err != nil {
			return Payment{}, err
		}
		p, err = lc.store.Capture(ctx, id, reference)
	}
	if err != nil {
		return Payment{}, err
	}
	if p.Status == StatusPaid {
		lc.notifier.publish(ctx, notification{Orders: []change{{ID: id, Status: p.Status}}})
	}
	return p, nil
}

// A capture is what a payment provider reports.
type capture struct {
	order     ID
	reference string
}

// payBatch pays orders whose captures arrive at the same time. Captures that it does not pay are left to the store's
// Capture, such as the second capture of an order.
func (lc *lifecycle) payBatch(ctx context.Context, calls []*batch.Call[capture, bool]) {
	references := make(map[ID]string, len(calls))
	for _, c := range calls {
		if _, ok := references[c.In.order]; !ok {
			references[c.In.order] = c.In.reference
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	paid, err := lc.store.Pay(ctx, references)
	if err != nil {
		failBatch(calls, err, func(half []*batch.Call[capture, bool]) { lc.payBatch(ctx, half) })
		return
	}
	if len(paid) > 0 {
		var changes notification
		for _, id := range paid {
			changes.Orders = append(changes.Orders, change{ID: id, Status: StatusPaid})
		}
		lc.notifier.publish(ctx, changes)
	}
	for _, c := range calls {
		c.Out = references[c.In.order] == c.In.reference && slices.Contains(paid, c.In.order)
	}
}

// Cancel ends an order that waits for payment, and returns its units. Cancelling it again returns the order again. It returns
// ErrUnknownOrder, also for another user's order, ErrOrderFinal with the order in its current state, and ErrUnavailable or
// ErrRecovering when the call has to be repeated.
func (lc *lifecycle) Cancel(ctx context.Context, id ID, v Viewer) (Order, error) {
	o, err := lc.awaitCommit(ctx, id, v)
	if err != nil {
		return Order{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	for {
		switch {
		case o.Status == StatusCancelled:
			return o, nil
		case o.Status != StatusConfirmed:
			return o, failure.New(ErrOrderFinal, "order %s is %s", id, o.Status)
		case o.PayBefore.IsZero():
			return o, failure.New(ErrOrderFinal, "order %s is confirmed, which is final where the sale's hold_ms is 0", id)
		}
		cancelled, err := batched(ctx, lc.cancelling, id)
		if err != nil {
			return Order{}, err
		}
		if cancelled {
			o.Status = StatusCancelled
			return o, nil
		}
		if !periodic.Pause(ctx, lockedPoll) { // another transaction holds it, or has changed it
			return Order{}, fmt.Errorf("%w: database: another transaction holds order %s", ErrUnavailable, id)
		}
		if o, err = lc.reader.stored(ctx, id); err != nil {
			return Order{}, err
		}
	}
}

// cancelBatch cancels orders whose cancellations arrive at the same time, and returns their units.
func (lc *lifecycle) cancelBatch(ctx context.Context, calls []*batch.Call[ID, bool]) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	list, err := lc.store.Cancel(ctx, inputs(calls))
	if err != nil {
		failBatch(calls, err, func(half []*batch.Call[ID, bool]) { lc.cancelBatch(ctx, half) })
		return
	}
	lc.returnUnits(ctx, list)
	for _, c := range calls {
		c.Out = slices.ContainsFunc(list, func(r Return) bool { return r.ID == c.In })
	}
}

// awaitCommit returns the order once it is a row in the database, or ErrUncommitted after commitWithin.
func (lc *lifecycle) awaitCommit(ctx context.Context, id ID, v Viewer) (Order, error) {
	o, err := lc.reader.Wait(ctx, id, v, StatusAccepted, commitWithin)
	if err != nil || o.Status != StatusAccepted {
		return o, err
	}
	if _, err := lc.store.DeadLetter(ctx, id); err == nil {
		return o, failure.New(ErrUncommitted, "the database refuses order %s, until an operator has had it replayed", id)
	}
	return o, failure.New(ErrUncommitted, "order %s waits for the database", id)
}
