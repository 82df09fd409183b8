package orders

import (
	"slices"
	"testing"
)

// TestCallsOfAnItemShareABatch: while the maximum number of scripts is under way, all new calls wait for the next one.
func TestCallsOfAnItemShareABatch(t *testing.T) {
	const crowd = reserveMax + 5
	batches, goOn := make(chan []*reserveCall, crowd), make(chan struct{})
	b := newReserveBatcher(func(batch []*reserveCall) {
		batches <- slices.Clone(batch)
		<-goOn
	})
	var first []int
	for range scriptsAtOnce {
		b.add("item", &reserveCall{})
		first = append(first, len(<-batches))
	}
	var calls []*reserveCall
	for range crowd {
		calls = append(calls, &reserveCall{})
		b.add("item", calls[len(calls)-1])
	}
	b.add("other", &reserveCall{})
	if other := <-batches; len(other) != 1 || slices.Contains(first, 0) {
		t.Errorf("the first have %v calls, another item's %d", first, len(other))
	}
	close(goOn)
	var got []*reserveCall
	for len(got) < crowd {
		batch := <-batches
		if len(batch) > reserveMax {
			t.Errorf("%d calls in a batch", len(batch))
		}
		got = append(got, batch...)
	}
	for _, c := range calls {
		if !slices.Contains(got, c) {
			t.Error("a call is not decided")
		}
	}
	for idle := false; !idle; {
		b.mu.Lock()
		idle = len(b.items) == 0
		b.mu.Unlock()
	}
	if n := len(batches); n > 0 {
		t.Errorf("%d batches too many", n)
	}
}
