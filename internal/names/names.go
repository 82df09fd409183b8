// Package names is the grammar of names that stand in keys, paths, labels and URLs.
package names

import "strings"

const digits = "0123456789"

// Lower reports whether name is 1 to most of a-z 0-9 and the others, which are ASCII.
func Lower(name, others string, most int) bool {
	return made(name, most, func(c byte) bool {
		return c >= 'a' && c <= 'z' || strings.IndexByte(digits, c) >= 0 || strings.IndexByte(others, c) >= 0
	})
}

// Mixed reports whether name is 1 to most of A-Z a-z 0-9 and the others, which are ASCII.
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

// Namespace reports whether name may begin keys in Redis: 1 to 64 of A-Z a-z 0-9 . _ : -.
func Namespace(name string) bool { return Mixed(name, "._:-", 64) }

// Semaphore reports whether name may name a semaphore: 1 to 64 of a-z 0-9 -, or a hash tag of the same before a colon and a name.
func Semaphore(name string) bool {
	tag, rest, tagged := strings.Cut(name, ":")
	return Lower(tag, "-", 64) && (!tagged || Lower(rest, "-", 64))
}
