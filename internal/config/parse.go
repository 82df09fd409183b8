package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/redisclient"
)

// Each function here returns a function that parses a value into one field. Its error shows the value, unless that is secret, and
// what would be right.

func text(field *string) func(string) error {
	return func(value string) error { *field = value; return nil }
}

func boolean(field *bool) func(string) error {
	return func(value string) (err error) {
		if *field, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("must be true or false, got %q", value)
		}
		return nil
	}
}

func number(field *int, least, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d, got %q", least, most, value)
		}
		*field = n
		return nil
	}
}

func duration(field *time.Duration, least, most time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			return fmt.Errorf("must be a duration from %v to %v, such as %v, got %q", least, most, 3*least, value)
		}
		*field = d
		return nil
	}
}

func share(field *float64) func(string) error {
	return func(value string) error {
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= 0 && f <= 1) { // rejects NaN too
			return fmt.Errorf("must be a number from 0 to 1, such as 0.01, got %q", value)
		}
		*field = f
		return nil
	}
}

func oneOf(field *string, words ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("must be %s, got %q", strings.Join(words, " or "), value)
		}
		*field = value
		return nil
	}
}

// alternatives returns "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func level(field *slog.Level) func(string) error {
	return func(value string) error {
		levels := map[string]slog.Level{
			"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
		}
		l, ok := levels[value]
		if !ok {
			return fmt.Errorf("must be debug, info, warn or error, got %q", value)
		}
		*field = l
		return nil
	}
}

func address(field *string) func(string) error {
	return func(value string) error {
		_, port, err := net.SplitHostPort(value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("must be host:port or :port, such as 127.0.0.1:8080, got %q", value)
		}
		*field = value
		return nil
	}
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// file opens the file, so that a missing file is detected at the start and not during the sale.
func file(field *string) func(string) error {
	return func(value string) error {
		f, err := os.Open(value)
		if err != nil {
			return fmt.Errorf("must be a readable file: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("must be a file, got the folder %q", value)
		}
		*field = value
		return nil
	}
}

func folder(field *string) func(string) error {
	return func(value string) error {
		info, err := os.Stat(value)
		if err != nil {
			return fmt.Errorf("must be an existing folder: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("must be a folder, got the file %q", value)
		}
		*field = value
		return nil
	}
}

func zone(field **time.Location) func(string) error {
	return func(value string) (err error) {
		if *field, err = time.LoadLocation(value); err != nil || value == "Local" {
			return fmt.Errorf("must be a time zone such as Asia/Shanghai, Europe/Berlin or UTC, got %q", value)
		}
		return nil
	}
}

func networks(field *[]netip.Prefix) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			prefix, err := netip.ParsePrefix(part)
			if ip, ipErr := netip.ParseAddr(part); ipErr == nil {
				prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("must be addresses or networks, such as 10.0.0.0/8,::1, got %q", part)
			}
			prefix = plain(prefix)
			if prefix.Bits() == 0 {
				return fmt.Errorf("must be the proxies' own networks, such as 10.0.0.0/8, got %q, which contains every address: any caller could "+
					"claim any user", part)
			}
			*field = append(*field, prefix)
		}
		return nil
	}
}

// plain converts an IPv4-mapped IPv6 network to an IPv4 network, as addresses are compared in that form.
func plain(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

var uniqueLocal = netip.MustParsePrefix("fc00::/7")

// WideProxies returns trusted networks that are too wide to hold only proxies: every host in them can claim any user and address.
func (c *Config) WideProxies() (wide []string) {
	for _, p := range c.TrustedProxies {
		if p.Bits() < 8 && p != uniqueLocal {
			wide = append(wide, p.String())
		}
	}
	return wide
}

func origins(field *[]string) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			if part == "*" {
				*field = append(*field, part)
				continue
			}
			u, err := url.Parse(part)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || part != u.Scheme+"://"+u.Host || u.Hostname() == "" {
				return fmt.Errorf("must be origins, such as https://shop.example,http://localhost:3000, or * for all, got %q", part)
			}
			*field = append(*field, part)
		}
		return nil
	}
}

// collector parses a URL without credentials: those belong in the exporter's headers.
func collector(field *string) func(string) error {
	return func(value string) error {
		u, err := url.Parse(value)
		switch {
		case err != nil, strings.Contains(value, "@"), u.RawQuery != "":
			return errors.New("must be a URL without a password or a query, such as http://localhost:4318 (value not shown, it may contain a " +
				"password); set credentials in OTEL_EXPORTER_OTLP_HEADERS")
		case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Fragment != "":
			return fmt.Errorf("must be the base URL of an OTLP/HTTP collector, without /v1/traces, such as http://localhost:4318, got %q", value)
		}
		*field = value
		return nil
	}
}

func keysURL(field *string) func(string) error {
	return func(value string) error {
		*field = value
		return auth.CheckJWKSURL(value)
	}
}

var hostnameShape = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$`)

var fieldName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~\x60-]+$`)

func fields(field *[]string) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if !fieldName.MatchString(part) || part == "*" {
				return fmt.Errorf("must be names of header fields, such as X-Shop,X-Campaign, got %q", part)
			}
			*field = append(*field, part)
		}
		return nil
	}
}

// issuers are values of the claim iss.
func issuers(field *[]string) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if !input.Visible(part, 255) {
				return fmt.Errorf("must be issuers of at most 255 visible ASCII characters, such as "+
					"https://abc.execute-api.eu-west-1.amazonaws.com/api, got %q", part)
			}
			*field = append(*field, part)
		}
		return nil
	}
}

// relays are base URLs, which may have a path.
func relays(field *[]string) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			u, err := url.Parse(part)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
				return fmt.Errorf("must be base URLs, such as https://api.drand.sh, got %q", part)
			}
			*field = append(*field, part)
		}
		return nil
	}
}

func hostnames(field *[]string) func(string) error {
	return func(value string) error {
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			if !hostnameShape.MatchString(part) {
				return fmt.Errorf("must be hostnames, such as shop.example,www.shop.example, got %q", part)
			}
			*field = append(*field, part)
		}
		return nil
	}
}

// namespace rejects characters with a meaning in Redis keys: braces, colons, globs.
func namespace(field *string) func(string) error {
	return func(value string) error {
		if !names.Lower(value, "_-", 32) || !names.Lower(value[:1], "", 1) {
			return fmt.Errorf("must be 1 to 32 of a-z, 0-9, _ and -, starting with a letter or digit, got %q", value)
		}
		*field = value
		return nil
	}
}

func (u *URL) setRedis(value string) error {
	_, err := redisclient.ParseURL(value)
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return u.set(value, err, "redis://user:password@host:6379/0, rediss:// for TLS, comma-separated nodes of a cluster, "+
		"redis+cluster://host:6379 for a cluster, or redis+sentinel://host:26379,host:26379/name")
}

func (u *URL) setPostgres(value string) error {
	var err error
	if !strings.HasPrefix(value, "postgres://") && !strings.HasPrefix(value, "postgresql://") {
		err = errors.New("unsupported scheme")
	} else {
		err = pgclient.Check(value)
	}
	return u.set(value, err, "postgres://user:password@host:5432/database?sslmode=verify-full")
}

func (u *URL) set(value string, err error, right string) error {
	// An unencoded password can break the URL or point it elsewhere, and parsers quote the offending text. Several hosts in one URL are a
	// Postgres extension that net/url does not support.
	_, rest, _ := strings.Cut(value, "://")
	authority, _, _ := strings.Cut(rest, "/")
	misled := strings.Contains(rest, "@") && strings.LastIndexByte(rest, '@') > len(authority)
	if quoting := (*url.Error)(nil); misled || errors.As(err, &quoting) {
		return fmt.Errorf("must be like %s, with special characters of the password percent-encoded, got an invalid URL (not shown, it may "+
			"contain a password)", right)
	}
	if err != nil {
		return fmt.Errorf("must be like %s, got %q: %w", right, URL(value), err)
	}
	*u = URL(value)
	return nil
}
