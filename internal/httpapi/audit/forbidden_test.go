package audit

import (
	"testing"
	"time"
)

// TestForbiddenCalls: of the calls of one token and operation, one a minute is recorded, with the number of the others.
func TestForbiddenCalls(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var f forbiddenCalls
	for i, step := range []struct {
		token, operation string
		after            time.Duration
		before           int
		due              bool
	}{
		{"s", "pause", 0, 0, true},
		{"s", "pause", 0, 0, false},
		{"s", "pause", 59 * time.Second, 0, false},
		{"s", "close", 59 * time.Second, 0, true},
		{"m", "pause", 59 * time.Second, 0, true},
		{"s", "pause", time.Minute, 2, true},
		{"s", "pause", time.Minute, 0, false},
		{"s", "pause", 3 * time.Minute, 1, true},
	} {
		if before, due := f.due(step.token, step.operation, noon.Add(step.after)); before != step.before || due != step.due {
			t.Errorf("step %d: %d, %v", i, before, due)
		}
	}
}
