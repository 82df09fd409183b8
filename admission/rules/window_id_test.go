package rules

import "testing"

// One limit, one id: what does not change the meaning of a count does not change its id.
func TestWindowIDs(t *testing.T) {
	// IDs survive deployments: a change here starts all counts from zero.
	if id := windowID("orders", "sliding_log", "1m0s", "user"); id != "tyvvZ3VX" {
		t.Errorf("the id is %s", id)
	}
	ids := map[string]string{}
	for _, text := range []string{
		"{name: a, subject: user, limit: 1, window: 1s}",
		"{name: b, subject: user, limit: 1, window: 1s}",
		"{name: a, subject: ip, limit: 1, window: 1s}",
		"{name: a, subject: user, limit: 1, window: 2s}",
		"{name: a, subject: user, limit: 1, window: 1s, algorithm: sliding_counter}",
		"{name: a, subject: user, limit: 1, window: 1s, algorithm: fixed_window}",
		"{name: a, subject: [user, ip], limit: 1, window: 1s}",
		"{name: a, subject: [user, ip], joint: ip, limit: 1, window: 1s}",
		"{name: a, subject: [user, ip], joint: [ip, user], limit: 1, window: 1s}",
		"{name: a, subject: user, limit: 1, window: 24h, algorithm: fixed_window}",
		"{name: a, subject: user, limit: 1, window: day}",
		"{name: a, subject: user, limit: 1, window: month}",
		"{name: a, subject: user, limit: 1, window: day, zone: Asia/Shanghai}",
		"{name: a, subject: user, limit: 1, window: 1s, algorithm: base, base: {limit: 1, window: 2s}}",
		"{name: a, subject: user, limit: 1, window: 1s, algorithm: base, base: {limit: 1, window: day}}",
		"{name: a, subject: user, limit: 1, window: 1s, algorithm: base, base: {limit: 1, window: day}, zone: Asia/Shanghai}",
	} {
		id := onlyWindow(t, text).ID
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s share an id", text, other)
		}
		ids[id] = text
	}
	for changed, text := range map[string]string{
		"{name: a, subject: [user], windows: [{limit: {x: 5}, window: 1000ms}], cost: 2, match: {method: POST}}":                  "{name: a, subject: user, limit: 1, window: 1s}",
		"{name: a, subject: user, limit: 1, window: 1s, overrides: [{match: {tier: x}, limit: 9}], shadow: true, on_exceed: ban}": "{name: a, subject: user, limit: 1, window: 1s}",
		"{name: a, subject: user, limit: 9, window: 1s, algorithm: base, base: {limit: 3, window: 2s}}":                           "{name: a, subject: user, limit: 1, window: 1s, algorithm: base, base: {limit: 1, window: 2s}}",
		"{name: a, subject: [user, ip], joint: [user, ip], limit: 2, window: 1s, count_rejected: true}":                           "{name: a, subject: [user, ip], joint: [ip, user], limit: 1, window: 1s}",
		"{name: a, subject: user, limit: 2, window: day, zone: UTC, on_store_error: closed}":                                      "{name: a, subject: user, limit: 1, window: day}",
	} {
		if ids[onlyWindow(t, changed).ID] != text {
			t.Errorf("%s counts other than %s", changed, text)
		}
	}
	burst := "{name: a, subject: user, limit: 1, window: 1s, algorithm: gcra"
	if onlyWindow(t, burst+"}").ID != onlyWindow(t, burst+", burst: 5}").ID {
		t.Error("another burst gives another id")
	}
}

func onlyWindow(t *testing.T, text string) Counter {
	t.Helper()
	r, err := Parse("test.yaml", []byte("version: 1\nrules:\n- "+text))
	if err != nil {
		t.Fatal(err)
	}
	return r.rules[0].windows[0]
}
