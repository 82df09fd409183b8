package firewall

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/login"
)

// written formats p for the program: a single IPv4 address as such, everything else as a prefix.
func written(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// A reason is why a target is banned. It is a closed set: a program never gets text that a client or operator has chosen.
type reason string

const (
	byLogin    reason = "login"
	byRule     reason = "rule"
	byOperator reason = "operator"
)

// reasonOf attributes a ban to a login rule only while that rule is in force: other rules may have any name.
func reasonOf(b *bans.Ban, set *rules.Set) reason {
	if b.Rule == "" {
		return byOperator
	}
	steps, _ := login.Steps(set) // invalid ones are not in force
	if slices.ContainsFunc(steps, func(s login.Step) bool { return s.Name() == b.Rule }) {
		return byLogin
	}
	return byRule
}

// seconds returns the seconds left of a ban, rounded up: a firewall that lifts a ban too late is corrected by an unban, one that lifts it
// too early is not corrected.
func seconds(left time.Duration) int64 { return int64((left + time.Second - 1) / time.Second) }

// special are the networks that do not belong to clients.
var special = func() (all []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/128", "::1/128", "::ffff:0:0/96", "fe80::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// never returns why a firewall must not ban p, or "". A network is refused if it contains one such address, because unlike the rules a
// firewall has no exceptions.
func never(p netip.Prefix, rules *rules.Set, own, proxies []netip.Prefix) (why string) {
	script := scriptOf(rules)
	widest := script.Widest4
	if p.Addr().Is6() {
		widest = script.Widest6
	}
	if p.Bits() < widest {
		return fmt.Sprintf("it is wider than /%d", widest)
	}
	if list := rules.NeverBannedIn(p); list != "" {
		return "list " + list + " is never banned"
	}
	for _, kind := range []struct {
		nets []netip.Prefix
		why  string
	}{{special, "it is no client's address"}, {own, "this machine has an address there"}, {proxies, "a trusted proxy is there"}} {
		for _, n := range kind.nets {
			if p.Overlaps(n) {
				return kind.why
			}
		}
	}
	return ""
}

// ownAddresses returns the addresses of this machine's interfaces. They are read each time, because they can change.
func ownAddresses() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("firewall: addresses of this machine: %w", err)
	}
	var all []netip.Prefix
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				ip = ip.Unmap()
				all = append(all, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return all, nil
}
