package seal_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/seal"
)

type value struct {
	Name string
	N    int
}

var older, newer = []byte("the secret before"), []byte("the secret that follows")

func TestOpen(t *testing.T) {
	want := value{"ann", 7}
	by := func(secret, previous []byte) seal.Keys { return seal.NewKeys(secret, previous) }
	text := by(older, nil).Seal("session", want)
	for name, tt := range map[string]struct {
		keys      seal.Keys
		use, text string
		opens     bool
	}{
		"the same":                  {by(older, nil), "session", text, true},
		"of the former secret":      {by(newer, older), "session", text, true},
		"of a secret to come":       {by(newer, nil), "session", text, false},
		"of the empty secret":       {by(newer, nil), "session", by(nil, nil).Seal("session", want), false},
		"of an empty former secret": {by(newer, []byte{}), "session", by(nil, nil).Seal("session", want), false},
		"for another use":           {by(older, nil), "permit", text, false},
		"empty":                     {by(older, nil), "session", "", false},
		"without a signature":       {by(older, nil), "session", strings.Split(text, ".")[0], false},
		"with an empty one":         {by(older, nil), "session", strings.Split(text, ".")[0] + ".", false},
		"with another's":            {by(older, nil), "session", strings.Split(text, ".")[0] + "." + strings.Split(by(older, nil).Seal("session", value{"bob", 7}), ".")[1], false},
		"longer":                    {by(older, nil), "session", text + "A", false},
		"shorter":                   {by(older, nil), "session", text[:len(text)-1], false},
	} {
		t.Run(name, func(t *testing.T) {
			var got value
			key := tt.keys.Open(tt.use, tt.text, &got)
			if tt.opens != (key != nil) || tt.opens && got != want {
				t.Errorf("%v, by a key: %v", got, key != nil)
			}
		})
	}
}

// TestEveryByteIsSigned: a sealed text with any byte changed is not accepted.
func TestEveryByteIsSigned(t *testing.T) {
	keys := seal.NewKeys(newer, older)
	text := keys.Seal("session", value{"ann", 7})
	for i := range text {
		for _, other := range []byte{'A', 'B', '_', '.', text[i] ^ 1, text[i] ^ 32} {
			if other == text[i] {
				continue
			}
			var got value
			if keys.Open("session", text[:i]+string(other)+text[i+1:], &got) != nil {
				t.Errorf("with %q at %d: %+v", other, i, got)
			}
		}
	}
}

// TestOpenReturnsTheKey: callers hash with the key that sealed, so that a hash outlives a change of the secret as long as the sealed text does.
func TestOpenReturnsTheKey(t *testing.T) {
	before, after := seal.NewKeys(older, nil), seal.NewKeys(newer, older)
	for want, text := range map[string]string{
		before[0].Hash("device", "ann"): before.Seal("device", value{}),
		after[0].Hash("device", "ann"):  after.Seal("device", value{}),
	} {
		if key := after.Open("device", text, &value{}); key == nil || key.Hash("device", "ann") != want {
			t.Errorf("opened by %v", key)
		}
	}
}

// TestAnotherFormat: what a version with another format has signed is not accepted, and not read in part.
func TestAnotherFormat(t *testing.T) {
	keys := seal.NewKeys(newer, nil)
	if keys.Open("session", keys.Seal("session", "only a text"), &value{}) != nil {
		t.Error("a text is taken for a value")
	}
	// The signature is right, and the payload no base64.
	if payload := "{}"; keys.Open("session", payload+"."+keys[0].Hash("session", payload), &value{}) != nil {
		t.Error("a payload that is not base64")
	}
}

func TestHash(t *testing.T) {
	key := seal.NewKeys(newer, nil)[0]
	seen := map[string][]string{}
	for _, of := range [][]string{{"a", "b", "c"}, {"a", "bc"}, {"ab", "c"}, {"a", "b", "", "c"}, {"a"}, {"a", ""}, {"a", `b" "c`}, {"a b", "c"}} {
		h := key.Hash(of[0], of[1:]...)
		if other, ok := seen[h]; ok {
			t.Errorf("%q and %q have the hash %s", of, other, h)
		}
		seen[h] = of
	}
	text := strings.Split(seal.Keys{key}.Seal("a", value{"ann", 7}), ".")[0]
	readable, err := base64.RawURLEncoding.DecodeString(text)
	var got value
	if err != nil || json.Unmarshal(readable, &got) != nil || got.Name != "ann" {
		t.Errorf("%s is not readable: %v", text, err)
	}
}
