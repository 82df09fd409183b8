package memory_test

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/memory"
	"github.com/tidegate/tidegate/orders/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) (storage.Store, func(string)) {
		refused := ""
		store := memory.New(memory.Options{Faults: memory.Faults{
			Refuse: func(r *orders.Reservation) bool { return r.Buyer == refused && refused != "" },
		}})
		return store, func(buyer string) { refused = buyer }
	})
}

func TestInspect(t *testing.T) {
	storetest.RunInspect(t, func(*testing.T) (storage.Store, func(storetest.Damage)) {
		store := memory.New(memory.Options{})
		return store, func(d storetest.Damage) { store.Damage(d.Rows) }
	})
}
