package orders

import (
	"context"
	"errors"
	"fmt"
)

// DeadLetters lists accepted orders that the database refuses, sorted by id. They keep their units until an operator replays
// them. It returns ErrUnavailable when the database does not answer.
func (s *Service) DeadLetters(ctx context.Context, after ID, limit int) ([]DeadLetter, error) {
	reading, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	return s.store.DeadLetters(reading, after, limit)
}

// Replay commits a dead letter after the cause of the database's refusal was fixed. It returns the order in its new state,
// ErrUnknownOrder, ErrConflict with the database's message while it still refuses, and ErrUnavailable or ErrRecovering when the
// call has to be repeated. It is idempotent: a repetition returns the order again.
func (s *Service) Replay(ctx context.Context, id ID) (Order, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	d, err := s.store.DeadLetter(ctx, id)
	if errors.Is(err, ErrUnknownOrder) {
		return s.stored(ctx, id) // the response to the first call may be lost
	}
	if err != nil {
		return Order{}, err
	}
	r := d.Reservation
	l, err := s.listing(r.Sale)
	if err != nil {
		return Order{}, err
	}
	r.Epoch = l.Epoch // every load counted its units as taken
	verdicts, err := s.store.Commit(ctx, []Reservation{r})
	switch {
	case errors.Is(err, ErrPoison):
		return Order{}, fmt.Errorf("%w: the database still refuses order %s: %w", ErrConflict, id, err)
	case err != nil:
		return Order{}, err
	case verdicts[0].Stale:
		return Order{}, ErrRecovering
	case len(verdicts[0].Taken) > 0:
		return Order{}, fmt.Errorf("%w: units %d of order %s are another order's", ErrConflict, verdicts[0].Taken, id)
	}
	status := verdicts[0].Status
	var back []Return
	if !status.Holds() { // another order has its key, and its units have no owner
		back = []Return{{
			ID: id, Sale: r.Sale, Item: r.Item, Epoch: l.Epoch, BuyerHash: r.BuyerHash, Keyless: r.KeyHash == "", Quantity: r.Quantity, Units: r.Units,
		}}
	}
	if err := s.store.DeleteDeadLetter(ctx, id, back); err != nil {
		return Order{}, err
	}
	s.returnUnits(ctx, back)
	s.publish(ctx, notification{Orders: []change{{ID: id, Status: status}}})
	return s.stored(ctx, id)
}
