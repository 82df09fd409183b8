package keyhash_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// What is hashed survives deployments: a change here voids it.
func TestHashes(t *testing.T) {
	secret := []byte("a secret of tests")
	key := keyhash.New(secret)
	for what, c := range map[string][2]string{
		"Derive":   {base64.RawURLEncoding.EncodeToString(keyhash.Derive(secret, "tidegate http")), "Aj6j3dkwPAoXTizHFuM8Ao6HMFcUYD_T5xjSPrbuRS4"},
		"Hash":     {key.Hash("user", "ann").String(), "FQUM8wryptHSfTsbtAyPpw"},
		"again":    {key.Hash("user", "ann").String(), "FQUM8wryptHSfTsbtAyPpw"}, // with what the first call left in the pool
		"MAC":      {keyhash.MAC(secret, "a text").String(), "RWGlFQi1nwX3Dr1dwHfkfA"},
		"of a key": {key.MAC("a text").String(), "RWGlFQi1nwX3Dr1dwHfkfA"},
		"of parts": {key.MAC("a ", "", "text").String(), "RWGlFQi1nwX3Dr1dwHfkfA"},
		"Of":       {keyhash.Of([]byte("a text")).String(), "c0GU7eWwY-ZU1jy5WmgsoQ"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %s, want %s", what, c[0], c[1])
		}
	}
}

func TestListsOfPartsDoNotCollide(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		nil, {""}, {"", ""}, {"a"}, {"a", "b"}, {"ab"}, {"a", "", "b"}, {"", "ab"}, {"\x01b"}, {strings.Repeat("x", 200)}, {strings.Repeat("x", 10_000)},
	} {
		text := string(keyhash.AppendParts(nil, parts...))
		if other, ok := seen[text]; ok {
			t.Errorf("%.20q and %.20q give the same text", parts, other)
		}
		seen[text] = parts
	}
}
