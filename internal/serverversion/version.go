// Package serverversion tells which version of Redis, Valkey or Postgres answers, and whether its line has a release with security
// fixes that it lacks.
package serverversion

import (
	"cmp"
	"strconv"
	"strings"
)

// Server is a product and its version, as the server reports them: "Valkey" and "8.1.10".
type Server struct {
	Name    string
	Version string
}

// Redis reads the reply to INFO server. Valkey also reports the version of Redis that it is compatible with.
func Redis(info string) Server {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if v, ok := fields["valkey_version"]; ok {
		return Server{"Valkey", v}
	}
	return Server{"Redis", fields["redis_version"]}
}

// Postgres reads the setting server_version, as in "15.20 (Debian 15.20-0+deb12u1)".
func Postgres(setting string) Server {
	version, _, _ := strings.Cut(setting, " ")
	return Server{"Postgres", version}
}

// Line returns the server's entry in Lines, or false if it has none: the line may be newer than this program.
func (s Server) Line() (Line, bool) {
	for _, l := range Lines {
		if l.Name == s.Name && strings.HasPrefix(s.Version+".", l.Line+".") {
			return l, true
		}
	}
	return Line{}, false
}

// Lacks reports whether the server is below the least patched version of its line. Distributions add fixes without changing the
// version, so it may be wrong about their packages.
func (s Server) Lacks() bool {
	l, known := s.Line()
	return known && (l.Least == "" || compare(s.Version, l.Least) < 0)
}

// compare orders versions by their numbers. What follows a number, as in 19beta1, is ignored.
func compare(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := cmp.Compare(number(x), number(y)); c != 0 {
			return c
		}
	}
	return 0
}

func number(text string) int {
	digits := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		text = text[:digits]
	}
	n, _ := strconv.Atoi(text) // none counts as 0
	return n
}
