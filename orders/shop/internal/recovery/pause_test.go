package recovery

import (
	"slices"
	"testing"
	"time"
)

func TestPausesGrowWhileTheEpochDoes(t *testing.T) {
	now := time.Now()
	var p pause
	var got []time.Duration
	for _, raised := range []bool{false, false, true, true, false, true, true, true, true} {
		p = p.failed(raised, now)
		if !p.until.Equal(now.Add(p.length)) {
			t.Errorf("a pause of %v ends %v after the failure", p.length, p.until.Sub(now))
		}
		got = append(got, p.length)
	}
	const ms = time.Millisecond
	want := []time.Duration{200 * ms, 200 * ms, 400 * ms, 800 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
