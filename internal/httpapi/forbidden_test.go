package httpapi

import "testing"

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
}
