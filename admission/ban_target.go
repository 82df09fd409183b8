package admission

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBanText is the maximum length of a user, device or reason of a ban, in characters.
const maxBanText = 255

// Shortest and longest prefixes of networks that can be banned. A typing error must not ban a large part of the Internet, and a longer
// IPv6 prefix is less than one customer owns.
const (
	widest4, narrowest4 = 8, 32
	widest6, narrowest6 = 16, 64
)

// ParseBanTarget makes a target canonical. The error is ErrInvalidRequest and says which form is valid.
func ParseBanTarget(kind, value string) (BanTarget, error) {
	t := BanTarget{BanKind(kind), value}
	switch t.Kind {
	case BanUser, BanDevice:
		if value == "" || !banText(value) {
			return BanTarget{}, fmt.Errorf("%w: the %s of a ban should be 1 to %d characters of UTF-8 without control characters",
				ErrInvalidRequest, kind, maxBanText)
		}
		return t, nil
	case BanIP:
		ip, err := netip.ParseAddr(value)
		if err != nil {
			return BanTarget{}, fmt.Errorf("%w: %.60q is no IP address such as 203.0.113.7 or 2001:db8::7", ErrInvalidRequest, value)
		}
		t.Value = Address(ip)
		return t, nil
	case BanNetwork:
		p, err := parseBanNetwork(value)
		if err != nil {
			return BanTarget{}, err
		}
		t.Value = p.String()
		return t, nil
	}
	return BanTarget{}, fmt.Errorf("%w: the kind of a ban is %.40q, should be user, ip, network or device", ErrInvalidRequest, kind)
}

func parseBanNetwork(value string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		return p, fmt.Errorf("%w: %.60q is no network such as 203.0.113.0/24 or 2001:db8::/48", ErrInvalidRequest, value)
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
		return p, fmt.Errorf("%w: %.60q, the prefix of an %s network that is banned should have %d to %d bits", ErrInvalidRequest,
			value, family, widest, narrowest)
	}
	return netip.PrefixFrom(ip, bits).Masked(), nil
}

// banText reports whether s is short, valid UTF-8 and free of control characters, so that it is safe in logs, lists and arguments.
func banText(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxBanText && !strings.ContainsFunc(s, unicode.IsControl)
}

// prefix returns the network of a canonical target; for an IPv6 address it is the /64 that is banned.
func (t BanTarget) prefix() (netip.Prefix, error) {
	if t.Kind == BanNetwork {
		return parseBanNetwork(t.Value)
	}
	ip, err := netip.ParseAddr(t.Value)
	return addressPrefix(embedded4(ip.Unmap())), err
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

// key returns the store's name of a target; parseBanKey is its inverse.
func (t BanTarget) key() string { return string(t.Kind) + ":" + t.Value }

func parseBanKey(key string) BanTarget {
	kind, value, _ := strings.Cut(key, ":")
	return BanTarget{BanKind(kind), value}
}
