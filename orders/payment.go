package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
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

// Capture records that the order was paid for. The reference is the payment
// provider's; the same one again gets the same answer. An order that no longer
// waits for its payment, or never did, keeps its status, and the capture is to
// be refunded. It returns an *InvalidError, ErrUnknownOrder, ErrConflict for a
// reference of another order, and ErrUnavailable or ErrRecovering when the
// capture is to be repeated. Nothing is recorded of an order that is not
// committed: a dead letter's captures are ErrUncommitted until it is replayed.
func (s *Service) Capture(ctx context.Context, id ID, reference string) (Payment, error) {
	if strings.TrimSpace(reference) == "" {
		return Payment{}, &InvalidError{Location: "body.reference", Message: "must not be empty or blank"}
	}
	if err := printable("body.reference", reference, maxReference); err != nil {
		return Payment{}, err
	}
	if !s.issued(id) {
		return Payment{}, ErrUnknownOrder
	}
	p, err := s.store.Capture(ctx, id, reference)
	if errors.Is(err, ErrUnknownOrder) {
		if err = s.awaitCommit(ctx, id, Viewer{All: true}); err != nil {
			return Payment{}, err
		}
		p, err = s.store.Capture(ctx, id, reference)
	}
	if err != nil {
		return Payment{}, err
	}
	if p.Status == StatusPaid {
		s.publish(ctx, bulletin{Orders: []change{{ID: id, Status: p.Status}}})
	}
	return p, nil
}

// Cancel ends an order that waits for its payment, and gives its units back.
// Cancelling it again returns it again. It returns ErrUnknownOrder, also for
// somebody else's order, ErrOrderFinal with the order as it stands, and
// ErrUnavailable or ErrRecovering when it is to be repeated.
func (s *Service) Cancel(ctx context.Context, id ID, v Viewer) (Order, error) {
	if err := s.awaitCommit(ctx, id, v); err != nil {
		return Order{}, err
	}
	o, ret, err := s.store.Cancel(ctx, id)
	switch {
	case err != nil:
		return Order{}, err
	case ret != nil:
		s.giveBack(ctx, []Return{*ret})
	case o.Status == StatusConfirmed:
		return o, fmt.Errorf("%w: %s is confirmed, which is final where the sale's hold_ms is 0", ErrOrderFinal, id)
	case o.Status != StatusCancelled:
		return o, fmt.Errorf("%w: %s is %s", ErrOrderFinal, id, o.Status)
	}
	return o, nil
}

// awaitCommit returns when the order is a row in the database.
func (s *Service) awaitCommit(ctx context.Context, id ID, v Viewer) error {
	o, err := s.Wait(ctx, id, v, StatusAccepted, commitWithin)
	if err != nil || o.Status != StatusAccepted {
		return err
	}
	if _, err := s.store.DeadLetter(ctx, id); err == nil {
		return fmt.Errorf("%w: the database refuses order %s, until an operator has had it replayed", ErrUncommitted, id)
	}
	return fmt.Errorf("%w: order %s waits for the database", ErrUncommitted, id)
}
