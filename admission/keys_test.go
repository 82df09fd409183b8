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

// Keys outlive a deployment: a change here starts all counts anew.
func TestKeyStrings(t *testing.T) {
	k := testKeyring(t)
	subject := k.subject("user", "ann")
	id := windowID("orders", "sliding_log", "1m0s", "user")
	const want = "tidegate:w:{W8s0HinM_-DIOIsnOBifBQ}:tyvvZ3VX"
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
	} {
		id := onlyWindow(t, text).id
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s share an id", text, other)
		}
		ids[id] = text
	}
	same := onlyWindow(t, "{name: a, subject: [user], windows: [{limit: {x: 5}, window: 1000ms}], cost: 2, match: {method: POST}}").id
	if ids[same] != "{name: a, subject: user, limit: 1, window: 1s}" {
		t.Error("another limit, cost or match gives another id")
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
