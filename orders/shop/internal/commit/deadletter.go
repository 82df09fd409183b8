package commit

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

func (lc *Lifecycle) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	reading, cancel := context.WithTimeout(ctx, reading.ListWithin)
	defer cancel()
	return lc.Store.DeadLetters(reading, after, limit)
}

func (lc *Lifecycle) Replay(ctx context.Context, id orders.ID) (orders.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, reading.ListWithin)
	defer cancel()
	d, err := lc.Store.DeadLetter(ctx, id)
	if errors.Is(err, orders.ErrUnknownOrder) {
		return lc.reader.Stored(ctx, id) // the response to the first call may be lost
	}
	if err != nil {
		return orders.Order{}, err
	}
	r := d.Reservation
	l, err := lc.sales.Find(ctx, r.Sale)
	if err != nil {
		return orders.Order{}, err
	}
	r.Epoch = l.Epoch // every load counted its units as taken
	verdicts, err := lc.Store.Commit(ctx, []orders.Reservation{r})
	switch {
	case errors.Is(err, orders.ErrPoison):
		why := err
		if refused, ok := errors.AsType[*orders.Error](err); ok {
			why = refused.Cause // what the database wrote
		}
		return orders.Order{}, failure.New(orders.ErrStillRefused, "order %s: %v", id, why).WithCause(orders.ErrPoison)
	case err != nil:
		return orders.Order{}, err
	case verdicts[0].Stale:
		return orders.Order{}, orders.ErrRecovering
	case len(verdicts[0].Taken) > 0:
		return orders.Order{}, failure.New(orders.ErrConflict, "units %d of order %s are another order's", verdicts[0].Taken, id)
	}
	status := verdicts[0].Status
	var back []storage.Return
	if !status.OwnsUnits() { // another order has its key, and its units have no owner
		back = []storage.Return{{
			ID: id, Sale: r.Sale, Item: r.Item, Epoch: l.Epoch, BuyerHash: r.BuyerHash, WithoutKey: r.KeyHash == "", Quantity: r.Quantity,
			Units: r.Units,
		}}
	}
	if err := lc.Store.DeleteDeadLetter(ctx, id, back); err != nil {
		return orders.Order{}, err
	}
	lc.returnUnits(ctx, back)
	lc.notifier.Publish(ctx, reading.Notification{Orders: []reading.Change{{ID: id, Status: status}}})
	return lc.reader.Stored(ctx, id)
}
