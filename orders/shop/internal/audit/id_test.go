package audit

import (
	"time"

	"github.com/tidegate/tidegate/orders"
)

// newID returns an id of a test.
func newID(at time.Time, item int) orders.ID {
	return (&orders.IDKey{Key: []byte("key")}).New(at, item)
}
