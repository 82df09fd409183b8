package login

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/names"
)

const maxName = 256 // characters

// Normalize returns the canonical form of a login name: NFKC, case-folded (ß becomes ss), without surrounding spaces and invisible
// characters. Names that authenticate as the same user must be counted as one, and names of different users separately. An application
// with other rules must set Options.Normalize to the function that its authentication uses.
func Normalize(name string) string {
	if plain(name) {
		return strings.ToLower(strings.TrimSpace(name))
	}
	// Invisible characters are removed first, because one between a letter and its accent prevents composition, and again after NFKC,
	// which can create some.
	name = norm.NFKC.String(seen(name))
	name = norm.NFKC.String(strings.ToLower(cases.Fold().String(name))) // Fold maps small Cherokee letters to capitals, ToLower maps them back
	return strings.TrimSpace(norm.NFKC.String(seen(name)))
}

// seen removes invisible characters from name.
func seen(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (t *Throttle) normalize(name string) (string, error) {
	if utf8.RuneCountInString(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", failure.New(ErrInvalid, "name must be 1 to %d characters of UTF-8 without control characters", maxName)
	}
	if name = t.opts.Normalize(name); name == "" {
		return "", failure.New(ErrInvalid, "name is required, the login name as typed")
	}
	return name, nil
}

// Password is the default factor of an attempt.
const Password = "password"

// Reset is the factor of a password reset: of a link or code that was sent to the owner. Its success means that it was used, and so that
// its holder is the owner; that a mail was sent is no success.
const Reset = "reset"

func validFactor(factor string) (string, error) {
	if factor == "" {
		return Password, nil
	}
	if !names.Lower(factor, "_-", 32) {
		return "", failure.New(ErrInvalid, "factor must be 1 to 32 of a-z 0-9 _ -, such as password, otp or reset, got %.40q", factor)
	}
	return factor, nil
}
