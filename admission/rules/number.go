package rules

import (
	"cmp"
	"strconv"
)

// A number is a parsed decimal number. Whole numbers of up to 18 digits, such as the ids of users, are exact.
type number struct {
	digits bool // has no decimal point
	whole  bool
	n      int64   // if whole
	f      float64 // always
}

// parseNumber parses a number such as -12 or 0.5. It checks the form before it calls strconv, because an error of strconv is an
// allocation for each request with other text.
func parseNumber(text string) (number, bool) {
	digits, points := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			digits++
		case c == '.' && digits > 0 && points == 0 && i < len(text)-1:
			points++
		case c == '-' && i == 0:
		default:
			return number{}, false
		}
	}
	if digits == 0 || len(text) > 64 {
		return number{}, false
	}
	f, _ := strconv.ParseFloat(text, 64)
	if points == 0 && digits <= 18 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return number{digits: true, whole: true, n: n, f: f}, true
	}
	return number{digits: points == 0, f: f}, true
}

func (a number) compare(b number) int {
	if a.whole && b.whole {
		return cmp.Compare(a.n, b.n)
	}
	return cmp.Compare(a.f, b.f)
}
