package orders

import (
	"context"
	"time"
)

// Event is one change of an order, or a capture that is to be refunded.
type Event struct {
	Seq       int64
	At        time.Time // of the database's clock
	OrderID   ID
	Sale      string
	Item      string
	Buyer     string
	Quantity  int
	Units     []int
	Status    Status
	Reason    Reason
	Action    Action // of a capture
	Reference string // of a capture
}

// missedEvents is how long a follower of the feed relies on being told before it asks.
const missedEvents = 200 * time.Millisecond

// Events are the changes of all orders behind a sequence number, in the order
// of their numbers: at most limit, or none when nothing happens for so long.
// Nothing is ever added before an event that was returned. ErrUnavailable says
// that the database does not answer.
func (s *Service) Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]Event, error) {
	changed, done := s.waiters.wait(anyOrder)
	defer done()
	var list []Event
	err := s.await(ctx, wait, missedEvents, changed, func() (bool, error) {
		reading, cancel := context.WithTimeout(ctx, listWithin)
		defer cancel()
		var err error
		list, err = s.store.Events(reading, after, limit)
		return len(list) > 0, err
	})
	return list, err
}

// await asks until there is an answer: when it is told that something changed,
// and after each pause in case nobody told. It gives up after wait, and when
// the service is stopped.
func (s *Service) await(ctx context.Context, wait, pause time.Duration, changed <-chan struct{}, ask func() (bool, error)) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		answered, err := ask()
		if answered || err != nil || wait <= 0 {
			return err
		}
		select {
		case <-changed:
		case <-time.After(pause):
		case <-deadline.C:
			wait = 0 // once more: it may not have been told
		case <-s.waiters.stopped:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
