// Package names checks names that are used in keys, paths, labels and URLs.
package names

import "strings"

// The length of names of one part, in bytes of ASCII. All that depends on it is here, except the
// maximum length of a rule in the body of admit.
const (
	Longest = 64
	Length  = "1 to 64" // in errors

	SaleOrItemPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
	RoomOrLanePattern = `^[a-z0-9-]{1,64}$`
	SemaphorePattern  = `^([a-z0-9-]{1,64}:)?[a-z0-9-]{1,64}$`
)

const digits = "0123456789"

// Lower reports whether name has 1 to most characters, all of a-z, 0-9 or others; others is ASCII.
func Lower(name, others string, most int) bool {
	return made(name, most, func(c byte) bool {
		return c >= 'a' && c <= 'z' || strings.IndexByte(digits, c) >= 0 || strings.IndexByte(others, c) >= 0
	})
}

// Mixed reports whether name has 1 to most characters, all of A-Z, a-z, 0-9 or others; others is ASCII.
func Mixed(name, others string, most int) bool {
	return made(name, most, func(c byte) bool {
		return c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte(digits, c) >= 0 || strings.IndexByte(others, c) >= 0
	})
}

func made(name string, most int, of func(c byte) bool) bool {
	if len(name) < 1 || len(name) > most {
		return false
	}
	for i := range len(name) {
		if !of(name[i]) {
			return false
		}
	}
	return true
}

// SaleOrItem reports whether a sale or an item can have this name: A-Z a-z 0-9 . _ -, of which the first is a letter or digit.
func SaleOrItem(name string) bool { return Mixed(name, "._-", Longest) && Mixed(name[:1], "", 1) }

// RoomOrLane reports whether a waiting room or one of its lanes can have this name: a-z 0-9 -.
func RoomOrLane(name string) bool { return Lower(name, "-", Longest) }

// Namespace reports whether name can be the prefix of keys in Redis: A-Z a-z 0-9 . _ : -.
func Namespace(name string) bool { return Mixed(name, "._:-", Longest) }

// Semaphore reports whether a semaphore can have this name: a-z 0-9 -, or two such parts with a colon between; the first is then the hash
// tag.
func Semaphore(name string) bool {
	tag, rest, tagged := strings.Cut(name, ":")
	return Lower(tag, "-", Longest) && (!tagged || Lower(rest, "-", Longest))
}
