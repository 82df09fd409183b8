package keyhash_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// TestDecode: of all texts that package base64 decodes to the same value, one is accepted.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		encoding *base64.Encoding
		decode   func(string) ([]byte, error)
	}{{base64.RawURLEncoding, keyhash.DecodeRawURL}, {base64.StdEncoding, keyhash.DecodeStd}} {
		for n := range 7 {
			value := bytes.Repeat([]byte{0xa7}, n)
			text := c.encoding.EncodeToString(value)
			if got, err := c.decode(text); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%q: %x, %v", text, got, err)
			}
			for i := range len(text) + 1 {
				others := []string{text[:i] + "\n" + text[i:], text[:i] + "\r" + text[i:], text[:i] + "=" + text[i:]}
				for _, other := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/") {
					if i < len(text) && text[i] != other {
						others = append(others, text[:i]+string(other)+text[i+1:])
					}
				}
				for _, other := range others {
					if got, err := c.decode(other); err == nil && bytes.Equal(got, value) {
						t.Errorf("%q is accepted for %q", other, text)
					}
				}
			}
		}
	}
}
