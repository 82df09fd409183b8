package reading

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

func TestNewsWakeThoseWhoWait(t *testing.T) {
	s := &Notifier{ledger: ledger.New(1), waiters: NewWaiters(), sales: &catalog.Watch{}}
	s.sales.Catalog.Store(&catalog.Catalog{})
	ids := orders.IDKey{Key: []byte("key")}
	id, other := ids.New(time.UnixMilli(1), 1), ids.New(time.UnixMilli(2), 1)
	mine, done := s.waiters.wait(id)
	defer done()
	others, doneToo := s.waiters.wait(other)
	defer doneToo()
	s.Receive(Notification{Orders: []Change{{ID: id, Status: orders.StatusConfirmed}}})
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
