package httpapi

import (
	"testing"
	"time"
)

// TestForbiddenCallsDoNotFlood: forbidden calls cannot fill the database.
func TestForbiddenCallsDoNotFlood(t *testing.T) {
	b, kept := withAudit(t)
	for range 100 {
		if w := call(b.Internal(), "POST", "/v1/sales/flash/pause", "", "X-Tidegate-Token", shopToken); w.Code != 403 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := len(kept.events); n < 1 || n > 10 { // one per minute
		t.Errorf("%d events", n)
	}
	kept.events = nil
	for range 20 { // an operator's calls are all recorded
		call(b.Internal(), "PUT", "/v1/bans/user/ann", `{`, "X-Tidegate-Token", bossToken)
	}
	if len(kept.events) != 20 {
		t.Errorf("%d events of an operator", len(kept.events))
	}

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
