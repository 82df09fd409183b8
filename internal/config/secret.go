package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a value that is never printed: every way to format it gives "(set)" or nothing.
// A conversion to string reveals it.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(set)"
}

// GoString, LogValue and MarshalText return what String returns.
func (s Secret) GoString() string             { return s.String() }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.String()) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// atLeast sets the secret if it is long enough. A secret that can be guessed allows forgeries.
func (s *Secret) atLeast(characters int) func(string) error {
	return func(value string) error {
		if len(value) < characters {
			return fmt.Errorf("must have at least %d characters (openssl rand -hex 32 makes one), got %d (value not shown)",
				characters, len(value))
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return errors.New("must not contain spaces or control characters (value not shown)")
		}
		*s = Secret(value)
		return nil
	}
}

// given sets a secret that a third party issued.
func (s *Secret) given(value string) error {
	*s = Secret(value)
	return nil
}

// URL is a server's URL. It may contain a password, which is never printed. A conversion to string reveals it.
type URL string

// String returns the URL without its password and its query, which may contain one too.
func (u URL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok {
		if u == "" {
			return ""
		}
		return "(not a URL)"
	}
	user := ""
	// Use the last @, since an unencoded password may contain others.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		name, _, hasPassword := strings.Cut(rest[:i], ":")
		if hasPassword {
			name += ":***"
		}
		user, rest = name+"@", rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + user + rest
}

// GoString, LogValue and MarshalText return what String returns.
func (u URL) GoString() string             { return u.String() }
func (u URL) LogValue() slog.Value         { return slog.StringValue(u.String()) }
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
