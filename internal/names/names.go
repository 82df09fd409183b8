// Package names checks names that are used in keys, paths, labels and URLs.
package names

import "strings"

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

// Namespace reports whether name can be the prefix of keys in Redis: 1 to 64 of A-Z a-z 0-9 . _ : -.
func Namespace(name string) bool { return Mixed(name, "._:-", 64) }

// Semaphore reports whether a semaphore can have this name: 1 to 64 of a-z 0-9 -, or two such parts with a colon between; the first
// is then the hash tag.
func Semaphore(name string) bool {
	tag, rest, tagged := strings.Cut(name, ":")
	return Lower(tag, "-", 64) && (!tagged || Lower(rest, "-", 64))
}
