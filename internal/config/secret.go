package config

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/tidegate/tidegate/internal/input"
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
		if input.Guessable(value) {
			return errors.New("must not repeat a few characters (openssl rand -hex 32 makes a good one; value not shown)")
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

const fileSuffix = "_FILE" // of variables that name the file of a secret

// readSecrets reads the secrets that are given as files, and notes which can be read by others.
func (c *Config) readSecrets(flags *flag.FlagSet, given values) (wrong []error) {
	asFlag := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { asFlag[f.Name] = true })
	for _, name := range secretVariables {
		path := given[name+fileSuffix]
		switch {
		case path == "":
			plainURL := strings.HasSuffix(name, "_URL") && !strings.Contains(URL(given[name]).String(), ":***@")
			if s := (setting{name: name}); asFlag[s.flag()] && given.has(name) && !plainURL {
				c.Warnings = append(c.Warnings, fmt.Sprintf("the flag -%s shows a secret to every user of this machine: set %s or %s instead",
					s.flag(), name, name+fileSuffix))
			}
			continue
		case given.has(name):
			wrong = append(wrong, fmt.Errorf("%s and %s must not both be set", name, name+fileSuffix))
			continue
		}
		text, err := os.ReadFile(path)
		if given[name] = strings.TrimRight(string(text), "\r\n"); err == nil && !given.has(name) {
			err = errors.New("it is empty")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s must be a file that contains %s: %w", name+fileSuffix, name, err))
		}
	}
	for _, name := range append([]string{"TOKENS_FILE", "PASS_KEY_FILE", "PASS_KEY_FILE_PREVIOUS", "REDIS_KEY_FILE"}, secretVariables...) {
		if !strings.Contains(name, fileSuffix) {
			name += fileSuffix
		}
		info, err := os.Stat(given[name])
		if err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" { // which has no such bits
			c.Warnings = append(c.Warnings, fmt.Sprintf("every user of this machine can read the file of %s: chmod 600 %s", name, given[name]))
		}
	}
	return wrong
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
