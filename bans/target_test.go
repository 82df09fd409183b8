package bans_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/bans"
)

func TestBanTargets(t *testing.T) {
	for _, c := range []struct{ kind, value, want, problem string }{
		{"user", "ann", "ann", ""},
		{"user", strings.Repeat("ü", 255), strings.Repeat("ü", 255), ""},
		{"user", "", "", "is required"},
		{"user", strings.Repeat("u", 256), "", "at most 255 characters"},
		{"user", "a\nb", "", "U+000A"},
		{"user", "a\u0085b", "", "U+0085"},
		{"user", "\xff", "", "UTF-8"},
		{"device", "a\x00b", "", "U+0000"},
		{"ip", "::ffff:192.0.2.1", "192.0.2.1", ""},
		{"ip", "2001:DB8:1:2::1", "2001:db8:1:2::", ""},
		{"ip", "192.0.2.1/32", "", "no IP address such as"},
		{"ip", "", "", "no IP address such as"},
		{"network", "203.0.113.7/24", "203.0.113.0/24", ""},
		{"network", "::ffff:203.0.113.7/120", "203.0.113.0/24", ""},
		{"network", "2001:db8:1:2:3::/64", "2001:db8:1:2::/64", ""},
		{"network", "203.0.113.7", "", "no network such as"},
		{"network", "0.0.0.0/0", "", "8 to 32 bits"},
		{"network", "10.0.0.0/7", "", "8 to 32 bits"},
		{"network", "::/0", "", "16 to 64 bits"},
		{"network", "2001:db8::/65", "", "16 to 64 bits"},
		{"network", "::ffff:0.0.0.0/96", "", "8 to 32 bits"},
		{"network", "::ffff:0.0.0.0/90", "", "8 to 32 bits"},
		{"planet", "mars", "", "should be user, ip, network or device"},
	} {
		got, err := bans.ParseTarget(c.kind, c.value)
		if c.problem != "" {
			if !errors.Is(err, bans.ErrInvalid) || !strings.Contains(err.Error(), c.problem) || got != (bans.Target{}) {
				t.Errorf("%s %.40q: %+v, %v, want an error about %s", c.kind, c.value, got, err, c.problem)
			}
			continue
		}
		if err != nil || got != (bans.Target{Kind: bans.Kind(c.kind), Value: c.want}) {
			t.Errorf("%s %.40q: %+v, %v, want %q", c.kind, c.value, got, err, c.want)
		}
	}
}
