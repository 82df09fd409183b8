package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

func testDeadLetters(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	r.KeyHash = "key"
	b.must(b.AddDeadLetter(t.Context(), r, "refused"))
	b.must(b.AddDeadLetter(t.Context(), r, "refused again"))
	b.want(b.order(r.ID).Status, orders.StatusAccepted, "status of a dead letter")
	found, err := b.Statuses(t.Context(), []orders.ID{r.ID, b.reservation(2).ID})
	b.must(err)
	b.want(found, map[orders.ID]orders.Status{r.ID: orders.StatusAccepted}, "statuses")

	d, err := b.DeadLetter(t.Context(), r.ID)
	b.must(err)
	b.want(d.Reservation, r, "its reservation")
	b.want(d.Reason, "refused", "its reason")
	if since := time.Since(d.At); since < 0 || since > time.Minute {
		t.Errorf("buried %v ago", since)
	}
	if _, err := b.DeadLetter(t.Context(), b.reservation(3).ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("a dead letter that is none: %v", err)
	}
	second, stored := b.reservation(4), b.reservation(5)
	for _, r := range []orders.Reservation{second, stored} {
		b.must(b.AddDeadLetter(t.Context(), r, "refused"))
	}
	b.commit(stored) // after all
	list := func(after orders.ID, limit int) (ids []orders.ID) {
		t.Helper()
		letters, err := b.DeadLetters(t.Context(), after, limit)
		b.must(err)
		for i := range letters {
			ids = append(ids, letters[i].Reservation.ID)
		}
		return ids
	}
	b.want(list(orders.ID{}, 10), []orders.ID{r.ID, second.ID}, "dead letters, without what has an order by now")
	b.want(list(orders.ID{}, 1), []orders.ID{r.ID}, "a page")
	b.want(list(r.ID, 10), []orders.ID{second.ID}, "the next page")
	for range 2 {
		b.must(b.DeleteDeadLetter(t.Context(), r.ID, nil))
	}
	b.want(list(orders.ID{}, 10), []orders.ID{second.ID}, "without the one that was exhumed")
	if o, ok := b.find(r.ID); ok {
		t.Errorf("a dead letter that was exhumed: %v", o)
	}
}

// testDeadLetterThatWasCommitted: a dead letter whose task was delivered again, and committed, is an order.
func testDeadLetterThatWasCommitted(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	b.must(b.AddDeadLetter(t.Context(), r, "refused"))
	b.commit(r)
	b.want(b.order(r.ID).Status, orders.StatusConfirmed, "status")
	found, err := b.Statuses(t.Context(), []orders.ID{r.ID})
	b.must(err)
	b.want(found, map[orders.ID]orders.Status{r.ID: orders.StatusConfirmed}, "statuses")
	count := 0
	b.must(b.Holdings(t.Context(), "spring", func(h storage.Holding) error {
		count++
		b.want(h.Status, orders.StatusConfirmed, "status")
		return nil
	}))
	b.want(count, 1, "holdings")
}
