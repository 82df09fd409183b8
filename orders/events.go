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

// missedEvents is how long Events relies on notifications before it reads again.
const missedEvents = 200 * time.Millisecond

// Events returns the changes of all orders with sequence numbers above after, in ascending order: at most limit. It waits up to
// wait for the first one, and then returns none. No event is ever added before one that was returned. It returns ErrUnavailable
// when the database does not answer.
func (rd *reader) Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]Event, error) {
	changed, done := rd.waiters.wait(anyOrder)
	defer done()
	var list []Event
	err := rd.await(ctx, wait, missedEvents, changed, func() (bool, error) {
		reading, cancel := context.WithTimeout(ctx, listWithin)
		defer cancel()
		var err error
		list, err = rd.store.Events(reading, after, limit)
		return len(list) > 0, err
	})
	return list, err
}

// await calls ask until it has an answer: whenever changed receives a value, and after each pause in case a notification was
// lost. It gives up after wait, when ctx ends, and when the service is stopped.
func (rd *reader) await(ctx context.Context, wait, pause time.Duration, changed <-chan struct{}, ask func() (bool, error)) error {
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
			wait = 0 // ask once more: a notification may have been lost
		case <-rd.waiters.stopped:
			wait = 0
		case <-ctx.Done():
			return nil
		}
	}
}
