package reading

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// missedEvents is how long Events relies on notifications before it reads again.
const missedEvents = 200 * time.Millisecond

func (rd *Reader) Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error) {
	changed, done := rd.waiters.wait(anyOrder)
	defer done()
	var list []orders.Event
	err := rd.await(ctx, wait, missedEvents, changed, func() (bool, error) {
		reading, cancel := context.WithTimeout(ctx, ListWithin)
		defer cancel()
		var err error
		list, err = rd.Store.Events(reading, after, limit)
		return len(list) > 0, err
	})
	return list, err
}

// await calls ask until it has an answer: whenever changed receives a value, and after each pause in case a notification was
// lost. It gives up after wait, when ctx ends, and when the service is stopped.
func (rd *Reader) await(ctx context.Context, wait, pause time.Duration, changed <-chan struct{}, ask func() (bool, error)) error {
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
