package bans

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// maxText is the maximum length of a user, device or reason of a ban, in characters.
const maxText = 255

// Shortest and longest prefixes of networks that can be banned. A typing error must not ban a large part of the Internet, and a longer
// IPv6 prefix is less than one customer owns.
const (
	widest4, narrowest4 = 8, 32
	widest6, narrowest6 = 16, 64
)

// ParseTarget makes a target canonical. The error is ErrInvalid and names the valid form.
func ParseTarget(kind, value string) (Target, error) {
	t := Target{Kind(kind), value}
	switch t.Kind {
	case User, Device:
		if value == "" {
			return Target{}, failure.New(ErrInvalid, "the %s of a ban is required", kind)
		}
		if err := input.Printable(value, maxText); err != nil {
			return Target{}, failure.New(ErrInvalid, "the %s of a ban %v", kind, err)
		}
		return t, nil
	case IP:
		ip, err := netip.ParseAddr(value)
		if err != nil {
			return Target{}, failure.New(ErrInvalid, "%.60q is no IP address such as 203.0.113.7 or 2001:db8::7", value)
		}
		t.Value = netaddr.Address(ip)
		return t, nil
	case Network:
		p, err := parseNetwork(value)
		if err != nil {
			return Target{}, err
		}
		t.Value = p.String()
		return t, nil
	}
	return Target{}, failure.New(ErrInvalid, "the kind of a ban is %.40q, should be user, ip, network or device", kind)
}

func parseNetwork(value string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		return p, failure.New(ErrInvalid, "%.60q is no network such as 203.0.113.0/24 or 2001:db8::/48", value)
	}
	ip, bits := p.Addr().Unmap(), p.Bits()
	if p.Addr().Is4In6() {
		bits -= 96
	}
	family, widest, narrowest := "IPv4", widest4, narrowest4
	if ip.Is6() {
		family, widest, narrowest = "IPv6", widest6, narrowest6
	}
	if bits < widest || bits > narrowest {
		return p, fmt.Errorf("%w: %.60q, the prefix of an %s network that is banned should have %d to %d bits", ErrInvalid,
			value, family, widest, narrowest)
	}
	return netip.PrefixFrom(ip, bits).Masked(), nil
}

// validText reports whether s is short, valid UTF-8 and free of control characters, so that it is safe in logs, lists and arguments.
func validText(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxText && !strings.ContainsFunc(s, unicode.IsControl)
}

// prefix returns the network of a canonical target; for an IPv6 address it is the /64 that is banned.
func (t Target) prefix() (netip.Prefix, error) {
	if t.Kind == Network {
		return parseNetwork(t.Value)
	}
	ip, err := netip.ParseAddr(t.Value)
	return addressPrefix(netaddr.Unembed(ip.Unmap())), err
}

// Prefix returns the network that a ban of an address or of a network excludes. ok is false for other targets, and for values that
// ParseTarget rejects.
func (t Target) Prefix() (p netip.Prefix, ok bool) {
	if t.Kind != IP && t.Kind != Network {
		return netip.Prefix{}, false
	}
	p, err := t.prefix()
	return p, err == nil && p.IsValid()
}

// addressPrefix returns the prefix banned for an address; ip is valid and not mapped.
func addressPrefix(ip netip.Addr) netip.Prefix {
	bits := narrowest4
	if ip.Is6() {
		bits = narrowest6
	}
	p, _ := ip.Prefix(bits) // fails only if bits exceeds the address length; drops the zone
	return p
}

// key returns the store's name of a target; parseKey is its inverse.
func (t Target) key() string { return string(t.Kind) + ":" + t.Value }

func parseKey(key string) Target {
	kind, value, _ := strings.Cut(key, ":")
	return Target{Kind(kind), value}
}
