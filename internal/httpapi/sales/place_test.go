package sales

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestPollAfter(t *testing.T) {
	final := orders.Order{Status: orders.StatusConfirmed}
	accepted := orders.Order{Status: orders.StatusAccepted}
	if got := pollAfter(&final); got != 0 {
		t.Errorf("final: %d", got)
	}
	for range 100 {
		if got := pollAfter(&accepted); got < 150 || got > 250 {
			t.Errorf("accepted: %d", got)
		}
	}
}
