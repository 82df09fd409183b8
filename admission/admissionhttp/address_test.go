package admissionhttp

import (
	"net/http"
	"net/netip"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

func from(remote string, forwarded ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": forwarded}}
}

func TestClientAddress(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	for _, tt := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"no proxy", "192.0.2.1:5", nil, "192.0.2.1"},
		{"forged by a client", "192.0.2.1:5", []string{"198.51.100.9"}, "192.0.2.1"},
		{"loopback is no trusted proxy", "127.0.0.1:5", []string{"198.51.100.9"}, "127.0.0.1"},
		{"one proxy", "10.0.0.1:5", []string{"198.51.100.9"}, "198.51.100.9"},
		{"forged in front of a proxy", "10.0.0.1:5", []string{"1.1.1.1, 198.51.100.9"}, "198.51.100.9"},
		{"two proxies", "10.0.0.1:5", []string{"1.1.1.1, 198.51.100.9, 10.9.9.9"}, "198.51.100.9"},
		{"several fields", "10.0.0.1:5", []string{"1.1.1.1", "198.51.100.9", "10.9.9.9"}, "198.51.100.9"},
		{"all trusted", "10.0.0.1:5", []string{"10.1.1.1, 10.2.2.2"}, "10.1.1.1"},
		{"garbage", "10.0.0.1:5", []string{"198.51.100.9, unknown"}, "10.0.0.1"},
		{"garbage behind a proxy", "10.0.0.1:5", []string{"unknown, 10.2.2.2"}, "10.2.2.2"},
		{"empty field", "10.0.0.1:5", []string{""}, "10.0.0.1"},
		{"with a port", "10.0.0.1:5", []string{"198.51.100.9:1234"}, "198.51.100.9"},
		{"IPv6", "[fd00::1]:5", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 in brackets", "[fd00::1]:5", []string{"[2001:db8::7]:99"}, "2001:db8::7"},
		{"IPv6 in brackets without port", "[fd00::1]:5", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"mapped peer", "[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.9"}, "198.51.100.9"},
		{"zone", "[fe80::1%eth0]:5", nil, "fe80::1"},
		{"no address", "@", []string{"198.51.100.9"}, "invalid IP"},
	} {
		if got := ClientAddress(from(tt.remote, tt.forwarded...), trusted).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPitfall_P31_FirstForwardedAddressIsNotTrusted: the left-most address in the field comes from the client and is not trusted.
func TestPitfall_P31_FirstForwardedAddressIsNotTrusted(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	for _, forged := range []string{"203.0.113.1", "10.0.0.2", "127.0.0.1", "::1", "garbage"} {
		for _, lines := range [][]string{{forged + ", 192.0.2.1"}, {forged, "192.0.2.1"}, {forged + ", 192.0.2.1, 10.0.0.9"}} {
			if got := ClientAddress(from("10.0.0.1:80", lines...), trusted).String(); got != "192.0.2.1" {
				t.Errorf("%q: %s", lines, got)
			}
		}
		if got := ClientAddress(from("192.0.2.1:80", forged), trusted).String(); got != "192.0.2.1" {
			t.Errorf("%s, from no proxy: %s", forged, got)
		}
	}
}

// Whatever a client writes, an untrusted peer stays itself, and behind a
// trusted one the entry the proxy added decides.
func FuzzClientAddress(f *testing.F) {
	f.Add("1.1.1.1, 10.0.0.2,,[::1]:80", "10.0.0.1:80")
	f.Add("%,]:[", "::1")
	trusted := prefixes("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, forwarded, remote string) {
		peer := ClientAddress(from(remote), trusted)
		got := ClientAddress(from(remote, forwarded), trusted)
		if !within(trusted, peer) && got != peer {
			t.Fatalf("%s became %s", peer, got)
		}
		if got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%s is not plain", got)
		}
		const proxy = "10.0.0.1:80"
		if got := ClientAddress(from(proxy, forwarded+", 192.0.2.1"), trusted); got.String() != "192.0.2.1" {
			t.Fatalf("%q became %s", forwarded, got)
		}
		if got := ClientAddress(from(proxy, forwarded, "192.0.2.1"), trusted); got.String() != "192.0.2.1" {
			t.Fatalf("%q became %s", forwarded, got)
		}
	})
}
