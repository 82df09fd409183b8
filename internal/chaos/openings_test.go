package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// openings records when the sale was closed, and when faults were in effect. Safe for concurrent use.
type openings struct {
	mu      sync.Mutex
	effects []span            // guarded by mu
	closed  map[string][]span // by API; guarded by mu
}

type span struct{ from, until time.Time }

// effect records that a fault was, or will be, in effect.
func (o *openings) effect(from, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.effects = append(o.effects, span{from, until})
}

func (o *openings) close(api string, s span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed == nil {
		o.closed = make(map[string][]span)
	}
	o.closed[api] = append(o.closed[api], s)
}

// longest returns the longest time in which an API took no orders although no fault was in effect.
func (o *openings) longest() (longest time.Duration, api string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, closed := range o.closed {
		for _, s := range closed {
			if took := s.longestWithout(o.effects); took > longest {
				longest, api = took, name
			}
		}
	}
	return longest, api
}

// longestWithout returns the length of the longest part of s that overlaps with none of the others.
func (s span) longestWithout(others []span) (longest time.Duration) {
	others = slices.SortedFunc(slices.Values(others), func(a, b span) int { return a.from.Compare(b.from) })
	from := s.from
	for _, other := range others {
		if !other.from.Before(s.until) {
			break
		}
		longest = max(longest, other.from.Sub(from))
		if other.until.After(from) {
			from = other.until
		}
	}
	return max(longest, s.until.Sub(from))
}

// watchOpenings orders a unit from each API again and again, each time for another buyer. An API is closed from an order that it does not
// decide until the next one that it does. The returned function ends it when every API has decided one more order, or after healTime.
func (c *cluster) watchOpenings(ctx context.Context) (end func()) {
	if c.hosts != nil { // their faults have no recorded end
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ending := make(chan struct{})
	var over sync.WaitGroup
	for api, public := range c.public {
		over.Go(func() {
			var closed time.Time
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now()
				if !c.decides(ctx, public, fmt.Sprintf("%sopening-%d-%d", ourBuyers, api+1, i)) {
					if closed.IsZero() {
						closed = began
					}
				} else {
					if !closed.IsZero() {
						c.openings.close(c.apis[api].name, span{closed, time.Now()})
						closed = time.Time{}
					}
					select {
					case <-ending:
						return
					default:
					}
				}
				periodic.Pause(ctx, time.Until(began.Add(200*time.Millisecond)))
			}
			if !closed.IsZero() {
				c.openings.close(c.apis[api].name, span{closed, time.Now()})
			}
		})
	}
	return func() {
		close(ending)
		defer time.AfterFunc(healTime, cancel).Stop()
		over.Wait()
		cancel()
	}
}

// decides orders a unit for a buyer, and reports whether the API sold it or was sold out.
func (c *cluster) decides(ctx context.Context, public, buyer string) bool {
	accepted, soldOut := c.order(ctx, public, item, buyer, buyer)
	return accepted || soldOut
}

// TestLongestWithout: time in which a fault is in effect does not count, and the rest is not added up.
func TestLongestWithout(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for _, tt := range []struct {
		name    string
		effects []span
		want    time.Duration
	}{
		{"no fault", nil, 20 * time.Second},
		{"faults before and after", []span{{at(1), at(5)}, {at(40), at(50)}}, 20 * time.Second},
		{"a fault until its middle", []span{{at(1), at(23)}}, 7 * time.Second},
		{"a fault in its middle", []span{{at(14), at(18)}}, 12 * time.Second},
		{"two that overlap, not in order", []span{{at(15), at(24)}, {at(9), at(16)}}, 6 * time.Second},
		{"a short one inside a long one", []span{{at(10), at(27)}, {at(11), at(12)}}, 3 * time.Second},
		{"a fault all the time", []span{{at(1), at(60)}}, 0},
	} {
		if got := (span{at(10), at(30)}).longestWithout(tt.effects); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestOpenings: the API that was closed longest is found.
func TestOpenings(t *testing.T) {
	var o openings
	began := time.Now()
	o.close("api-1", span{began, began.Add(3 * time.Second)})
	o.close("api-2", span{began, began.Add(5 * time.Second)})
	o.effect(began, began.Add(time.Second))
	if longest, api := o.longest(); longest != 4*time.Second || api != "api-2" {
		t.Errorf("%s was closed for %v", api, longest)
	}
}
