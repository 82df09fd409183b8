package admission

import (
	"regexp"
	"strings"
	"testing"
)

func testKeyring(t *testing.T) *keyring {
	t.Helper()
	k, err := newKeyring("tidegate", []byte("a secret of the tests, 32 bytes."))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Keys survive deployments: a change here starts all counts from zero.
func TestKeyStrings(t *testing.T) {
	k := testKeyring(t)
	subject := k.subject("user", "ann")
	id := windowID("orders", "sliding_log", "1m0s", "user")
	const want = "tidegate:w:{5VldJ-LZl-1EhSNhTQ_Psg}:tyvvZ3VX"
	if got := k.window(subject, id); got != want {
		t.Errorf("key = %q, want %q", got, want)
	}
}

var keyForm = regexp.MustCompile(`^tidegate:w:\{[A-Za-z0-9_-]{22}\}:[A-Za-z0-9_-]{8}$`)

func TestNoSubjectShapesItsKey(t *testing.T) {
	k := testKeyring(t)
	seen := map[string]string{}
	for _, id := range []string{
		"", "a", "{}", "}", "{a}:b", "a\nb", "a\x00b", "\x00", "🎟️", "*", ":", "\xff\xfe", "ann ", "Ann", strings.Repeat("x", 10_000),
	} {
		key := k.window(k.subject("user", id), "abcdefgh")
		if !keyForm.MatchString(key) {
			t.Errorf("subject %.20q has key %q", id, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("subjects %.20q and %.20q share a key", id, other)
		}
		seen[key] = id
	}
}

func TestSubjectsOfSeveralPartsDoNotCollide(t *testing.T) {
	k := testKeyring(t)
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"user", "ab"}, {"use", "rab"}, {"user", "a", "b"}, {"user", "a", "", "b"}, {"user", "", "ab"}, {"ip", "ab"}, {"usera", "b"},
	} {
		s := k.subject(parts...)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q share a hash", parts, other)
		}
		seen[s] = parts
	}
}

func TestKeysDependOnTheSecret(t *testing.T) {
	other, err := newKeyring("tidegate", []byte("another secret, as long as this."))
	if err != nil {
		t.Fatal(err)
	}
	if testKeyring(t).subject("user", "ann") == other.subject("user", "ann") {
		t.Error("two secrets give the same hash")
	}
}

// One limit, one id: what does not change the meaning of a count does not change its id.
func TestWindowIDs(t *testing.T) {
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
		id := onlyWindow(t, text).id
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
		if ids[onlyWindow(t, changed).id] != text {
			t.Errorf("%s counts other than %s", changed, text)
		}
	}
	burst := "{name: a, subject: user, limit: 1, window: 1s, algorithm: gcra"
	if onlyWindow(t, burst+"}").id != onlyWindow(t, burst+", burst: 5}").id {
		t.Error("another burst gives another id")
	}
}

func onlyWindow(t *testing.T, text string) window {
	t.Helper()
	r, err := ParseRules("test.yaml", []byte("version: 1\nrules:\n- "+text))
	if err != nil {
		t.Fatal(err)
	}
	return r.rules[0].windows[0]
}
