package chaos

import (
	"testing"
	"time"
)

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
