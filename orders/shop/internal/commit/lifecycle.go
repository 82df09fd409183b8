package commit

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
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

const maxReference = 255 // characters

// commitWithin is how long a cancellation or a payment waits for an order that
// is not committed yet.
const commitWithin = 2 * time.Second

// lockedPoll is how often Cancel retries an order that another transaction has locked.
const lockedPoll = 10 * time.Millisecond

// Lifecycle changes orders that are committed: it pays, cancels and expires them, and returns their units.
type Lifecycle struct {
	*core.Core
	sales      *catalog.Watch
	notifier   *reading.Notifier
	reader     *reading.Reader
	paying     *batch.Batcher[capture, bool]   // whether the order was paid
	cancelling *batch.Batcher[orders.ID, bool] // whether the order was cancelled
}

// NewLifecycle returns the part.
func NewLifecycle(c *core.Core, sales *catalog.Watch, notifier *reading.Notifier, reader *reading.Reader) *Lifecycle {
	lc := &Lifecycle{Core: c, sales: sales, notifier: notifier, reader: reader}
	lc.paying = batch.New(core.StatementMax, core.StatementsAtOnce, lc.payBatch)
	lc.cancelling = batch.New(core.StatementMax, core.StatementsAtOnce, lc.cancelBatch)
	return lc
}

func (lc *Lifecycle) Pay(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	if strings.TrimSpace(reference) == "" {
		return orders.Payment{}, failure.At(orders.ErrInvalid, "reference", "must not be empty or blank")
	}
	if err := core.Printable("reference", reference, maxReference); err != nil {
		return orders.Payment{}, err
	}
	if lc.Foreign.Load() {
		return orders.Payment{}, core.ErrForeign
	}
	if !lc.sales.Issued(id) {
		return orders.Payment{}, orders.ErrUnknownOrder
	}
	paid, err := core.Batched(ctx, lc.paying, capture{id, reference})
	if err != nil {
		return orders.Payment{}, err
	}
	if paid {
		return orders.Payment{Order: id, Reference: reference, Action: orders.ActionNone, Status: orders.StatusPaid}, nil
	}
	p, err := lc.Store.Capture(ctx, id, reference)
	if errors.Is(err, orders.ErrUnknownOrder) {
		if _, err = lc.awaitCommit(ctx, id, orders.Viewer{All: true}); err != nil {
			return orders.Payment{}, err
		}
		p, err = lc.Store.Capture(ctx, id, reference)
	}
	if err != nil {
		return orders.Payment{}, err
	}
	if p.Status == orders.StatusPaid {
		lc.notifier.Publish(ctx, reading.Notification{Orders: []reading.Change{{ID: id, Status: p.Status}}})
	}
	return p, nil
}

// A capture is what a payment provider reports.
type capture struct {
	order     orders.ID
	reference string
}

// payBatch pays orders whose captures arrive at the same time. Captures that it does not pay are left to the store's
// Capture, such as the second capture of an order.
func (lc *Lifecycle) payBatch(ctx context.Context, calls []*batch.Call[capture, bool]) {
	references := make(map[orders.ID]string, len(calls))
	for _, c := range calls {
		if _, ok := references[c.In.order]; !ok {
			references[c.In.order] = c.In.reference
		}
	}
	ctx, cancel := context.WithTimeout(ctx, core.StatementTimeout)
	defer cancel()
	paid, err := lc.Store.Pay(ctx, references)
	if err != nil {
		core.FailBatch(calls, err, func(half []*batch.Call[capture, bool]) { lc.payBatch(ctx, half) })
		return
	}
	if len(paid) > 0 {
		var changes reading.Notification
		for _, id := range paid {
			changes.Orders = append(changes.Orders, reading.Change{ID: id, Status: orders.StatusPaid})
		}
		lc.notifier.Publish(ctx, changes)
	}
	for _, c := range calls {
		c.Out = references[c.In.order] == c.In.reference && slices.Contains(paid, c.In.order)
	}
}

func (lc *Lifecycle) Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	o, err := lc.awaitCommit(ctx, id, v)
	if err != nil {
		return orders.Order{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	for {
		switch {
		case o.Status == orders.StatusCancelled:
			return o, nil
		case o.Status != orders.StatusConfirmed:
			return o, failure.New(orders.ErrOrderFinal, "order %s is %s", id, o.Status)
		case o.PayBefore.IsZero():
			return o, failure.New(orders.ErrOrderFinal, "order %s is confirmed, which is final where the sale's hold_ms is 0", id)
		}
		cancelled, err := core.Batched(ctx, lc.cancelling, id)
		if err != nil {
			return orders.Order{}, err
		}
		if cancelled {
			o.Status = orders.StatusCancelled
			return o, nil
		}
		if !periodic.Pause(ctx, lockedPoll) { // another transaction holds it, or has changed it
			return orders.Order{}, fmt.Errorf("%w: database: another transaction holds the order", orders.ErrUnavailable)
		}
		if o, err = lc.reader.Stored(ctx, id); err != nil {
			return orders.Order{}, err
		}
	}
}

// cancelBatch cancels orders whose cancellations arrive at the same time, and returns their units.
func (lc *Lifecycle) cancelBatch(ctx context.Context, calls []*batch.Call[orders.ID, bool]) {
	ctx, cancel := context.WithTimeout(ctx, core.StatementTimeout)
	defer cancel()
	list, err := lc.Store.Cancel(ctx, core.Inputs(calls))
	if err != nil {
		core.FailBatch(calls, err, func(half []*batch.Call[orders.ID, bool]) { lc.cancelBatch(ctx, half) })
		return
	}
	lc.returnUnits(ctx, list)
	for _, c := range calls {
		c.Out = slices.ContainsFunc(list, func(r storage.Return) bool { return r.ID == c.In })
	}
}

// awaitCommit returns the order once it is a row in the database, or ErrUncommitted after commitWithin.
func (lc *Lifecycle) awaitCommit(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	o, err := lc.reader.Wait(ctx, id, v, orders.StatusAccepted, commitWithin)
	if err != nil || o.Status != orders.StatusAccepted {
		return o, err
	}
	if _, err := lc.Store.DeadLetter(ctx, id); err == nil {
		return o, failure.New(orders.ErrUncommitted, "the database refuses the order, until an operator has had it replayed")
	}
	return o, failure.New(orders.ErrUncommitted, "the order waits for the database")
}
