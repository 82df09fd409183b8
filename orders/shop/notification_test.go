package shop

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

func TestNewsWakeThoseWhoWait(t *testing.T) {
	s := &notifier{ledger: ledger.New(1), waiters: newWaiters(), sales: &catalogWatch{}}
	s.sales.catalog.Store(&catalog{})
	ids := orders.IDKey{Key: []byte("key")}
	id, other := ids.New(time.UnixMilli(1), 1), ids.New(time.UnixMilli(2), 1)
	mine, done := s.waiters.wait(id)
	defer done()
	others, doneToo := s.waiters.wait(other)
	defer doneToo()
	s.receive(notification{Orders: []change{{ID: id, Status: orders.StatusConfirmed}}})
	select {
	case <-mine:
	default:
		t.Error("nobody told who waits for the order")
	}
	select {
	case <-others:
		t.Error("who waits for another order was woken")
	default:
	}
}
