package loadshed

import (
	"testing"
	"time"
)

func TestAllowance(t *testing.T) {
	a := NewAllowance(3, time.Second)
	for _, step := range []struct {
		after time.Duration
		want  int // of ten tries
	}{{0, 3}, {999 * time.Millisecond, 0}, {time.Second, 1}, {2500 * time.Millisecond, 1}, {time.Hour, 3}} {
		got := 0
		for range 10 {
			if a.Take("ann", a.start.Add(step.after)) {
				got++
			}
		}
		if got != step.want {
			t.Errorf("after %v: %d, want %d", step.after, got, step.want)
		}
	}
	took := 0
	for i := range 100_000 {
		if a.Take(string(rune(i)), a.start.Add(2*time.Hour)) {
			took++
		}
	}
	if took > 3*len(a.full) || took < len(a.full) {
		t.Errorf("any number of subjects took %d", took)
	}
}
