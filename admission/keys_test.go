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
	const want = "tidegate:w:{5VldJ-LZl-1EhSNhTQ_Psg}:tyvvZ3VX"
	if got := k.window(subject, "tyvvZ3VX"); got != want {
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
