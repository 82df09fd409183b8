package login

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const maxName = 256 // bytes

// Normalize makes one of the ways to write a login name: NFKC, folded case (ß is ss), without spaces around it and without characters that
// cannot be seen. Names that authenticate as one should be counted as one, and names of two people as two, so whoever authenticates otherwise
// gives Options.Normalize the very function that the authentication uses.
func Normalize(name string) string {
	if plain(name) {
		return strings.ToLower(strings.TrimSpace(name))
	}
	// What cannot be seen goes first, and again where compatibility made some: between a letter and its accent it would keep the two apart.
	name = norm.NFKC.String(seen(name))
	name = norm.NFKC.String(strings.ToLower(cases.Fold().String(name))) // Fold makes small Cherokee letters great ones, and these small
	return strings.TrimSpace(norm.NFKC.String(seen(name)))
}

// seen returns name without what cannot be seen.
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
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", fmt.Errorf("%w: name should be 1 to %d bytes of UTF-8 without control characters", ErrInvalid, maxName)
	}
	if name = t.opts.Normalize(name); name == "" {
		return "", fmt.Errorf("%w: name is empty, should be the login name as it was typed", ErrInvalid)
	}
	return name, nil
}

// Password is the factor of an attempt that names none.
const Password = "password"

var factors = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

func validFactor(factor string) (string, error) {
	if factor == "" {
		return Password, nil
	}
	if !factors.MatchString(factor) {
		return "", fmt.Errorf("%w: factor is %.40q, should be such as password, otp or reset: 1 to 32 of a-z 0-9 _ -", ErrInvalid, factor)
	}
	return factor, nil
}
