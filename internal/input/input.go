// Package input checks and shortens text that callers have sent.
package input

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// Guessable reports whether a secret repeats so few characters that it can be guessed however long it is. A random one of 16 hexadecimal
// digits has six different ones or more, but for one in a million.
func Guessable(secret string) bool {
	seen := make(map[rune]bool)
	for _, r := range secret {
		seen[r] = true
	}
	return len(seen) < 6
}

// Printable returns an error that describes what is wrong unless s is printable and has at most most characters, counted as in the API's
// description. Such text can be stored in every database.
func Printable(s string, most int) error {
	if len(s) <= most && plain(s) {
		return nil
	}
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return fmt.Errorf("must be valid UTF-8 of at most %d characters", most)
	}
	for _, r := range s {
		if r == utf8.RuneError {
			return errors.New("contains U+FFFD, which stands for whatever could not be read")
		}
		if !unicode.IsPrint(r) || invisible(r) {
			return fmt.Errorf("contains %U, and must be printable", r)
		}
	}
	return nil
}

// plain reports whether s is printable ASCII, as most text is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// invisible reports whether a printable character shows nothing, so that two names could look the same.
func invisible(r rune) bool {
	// a Braille pattern without dots
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800'
}

// Shortened returns s, or its first MaxQuoted bytes and an ellipsis.
func Shortened(s string) string {
	if len(s) > MaxQuoted {
		s = strings.ToValidUTF8(s[:MaxQuoted], "") + "…"
	}
	return s
}

// Hostile reports whether a character is a control character of terminals or changes the text direction.
func Hostile(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Harmless replaces hostile characters of a text.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if Hostile(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
