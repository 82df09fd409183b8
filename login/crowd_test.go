package login

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// crowded is a store for which too many wait.
type crowded struct{ *MemoryStore }

func (crowded) do(context.Context, *call) (reply, error) {
	return reply{}, fmt.Errorf("%w: %w", ErrUnavailable, store.ErrTooMany)
}

// An attempt rejected by an overloaded store is not decided locally, and the store is asked again at once: it is not unavailable.
func TestCrowdIsNoOutage(t *testing.T) {
	th, err := New(crowded{NewMemoryStore()}, rules.Default, Options{Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	a := Attempt{Name: "alice", IP: netip.MustParseAddr("192.0.2.1")}
	for range 2 {
		if d, err := th.Reserve(t.Context(), a); !errors.Is(err, ErrUnavailable) || !errors.Is(err, store.ErrTooMany) {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n := len(th.local.entries); n > 0 {
		t.Errorf("%d states are kept in this process", n)
	}
}
