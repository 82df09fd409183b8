// Package input checks and shortens text that callers have sent.
package input

import "strings"

// MaxQuoted is how many bytes of a caller's input a response repeats.
const MaxQuoted = 200

// Visible reports whether s has 1 to limit characters, all of them visible ASCII (RFC 5234's VCHAR), so that it is one word in
// a header field and in a log.
func Visible(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Shortened returns s, or its first MaxQuoted bytes and an ellipsis.
func Shortened(s string) string {
	if len(s) > MaxQuoted {
		s = strings.ToValidUTF8(s[:MaxQuoted], "") + "…"
	}
	return s
}
