package keyhash_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// TestDecode: of all texts that package base64 decodes to the same value, one is accepted.
func TestDecode(t *testing.T) {
	for _, encoding := range []*base64.Encoding{base64.RawURLEncoding, base64.StdEncoding} {
		for n := range 7 {
			value := bytes.Repeat([]byte{0xa7}, n)
			text := encoding.EncodeToString(value)
			if got, err := keyhash.Decode(encoding, text); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%q: %x, %v", text, got, err)
			}
			for i := range len(text) + 1 {
				others := []string{text[:i] + "\n" + text[i:], text[:i] + "\r" + text[i:], text[:i] + "=" + text[i:]}
				for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/") {
					if i < len(text) && text[i] != c {
						others = append(others, text[:i]+string(c)+text[i+1:])
					}
				}
				for _, other := range others {
					if got, err := keyhash.Decode(encoding, other); err == nil && bytes.Equal(got, value) {
						t.Errorf("%q is accepted for %q", other, text)
					}
				}
			}
		}
	}
}
