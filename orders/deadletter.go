package orders

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/failure"
)

// DeadLetters lists accepted orders that the database refuses, sorted by id. They keep their units until an operator replays
// them. It returns ErrUnavailable when the database does not answer.
func (lc *lifecycle) DeadLetters(ctx context.Context, after ID, limit int) ([]DeadLetter, error) {
	reading, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	return lc.store.DeadLetters(reading, after, limit)
}

// Replay commits a dead letter after the cause of the database's refusal was fixed. It returns the order in its new state,
// ErrUnknownOrder, ErrStillRefused with the database's message while it still refuses, ErrConflict if other orders have its units, and
// ErrUnavailable or ErrRecovering when the call has to be repeated. It is idempotent: a repetition returns the order again.
func (lc *lifecycle) Replay(ctx context.Context, id ID) (Order, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	d, err := lc.store.DeadLetter(ctx, id)
	if errors.Is(err, ErrUnknownOrder) {
		return lc.reader.stored(ctx, id) // the response to the first call may be lost
	}
	if err != nil {
		return Order{}, err
	}
	r := d.Reservation
	l, err := lc.sales.find(ctx, r.Sale)
	if err != nil {
		return Order{}, err
	}
	r.Epoch = l.Epoch // every load counted its units as taken
	verdicts, err := lc.store.Commit(ctx, []Reservation{r})
	switch {
	case errors.Is(err, ErrPoison):
		why := err
		if refused, ok := errors.AsType[*Error](err); ok {
			why = refused.Cause // what the database wrote
		}
		return Order{}, failure.New(ErrStillRefused, "order %s: %v", id, why).Because(ErrPoison)
	case err != nil:
		return Order{}, err
	case verdicts[0].Stale:
		return Order{}, ErrRecovering
	case len(verdicts[0].Taken) > 0:
		return Order{}, failure.New(ErrConflict, "units %d of order %s are another order's", verdicts[0].Taken, id)
	}
	status := verdicts[0].Status
	var back []Return
	if !status.OwnsUnits() { // another order has its key, and its units have no owner
		back = []Return{{
			ID: id, Sale: r.Sale, Item: r.Item, Epoch: l.Epoch, BuyerHash: r.BuyerHash, WithoutKey: r.KeyHash == "", Quantity: r.Quantity, Units: r.Units,
		}}
	}
	if err := lc.store.DeleteDeadLetter(ctx, id, back); err != nil {
		return Order{}, err
	}
	lc.returnUnits(ctx, back)
	lc.notifier.publish(ctx, notification{Orders: []change{{ID: id, Status: status}}})
	return lc.reader.stored(ctx, id)
}
