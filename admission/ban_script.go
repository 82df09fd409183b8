package admission

import (
	"net/netip"
	"slices"
)

// Defaults of a BanScript.
const (
	defaultBansPerMinute           = 60
	defaultWidest4, defaultWidest6 = 24, 48
)

// A BanScript configures the program that passes bans on to a firewall. This package only parses it.
type BanScript struct {
	Argv      []string // absolute path of the program, and its first arguments; empty: none
	PerMinute int      // maximum bans passed on within a minute
	Widest4   int      // shortest IPv4 prefix passed on, in bits
	Widest6   int      // the same for IPv6
}

// BanScript returns the script of the file. This package does not run it.
func (r *Rules) BanScript() BanScript {
	script := r.script
	script.Argv = slices.Clone(script.Argv)
	return script
}

// NeverBannedIn returns the list of `bans: {allow: …}` that contains an address of the network p, or "". Rules may ban a network around
// such an address and still admit that address; a firewall has no such exception.
func (r *Rules) NeverBannedIn(p netip.Prefix) (list string) {
	for _, l := range r.never {
		if l.overlaps(p) {
			return l.name
		}
	}
	return ""
}

// overlaps reports whether the list contains an address of p.
func (l *valueList) overlaps(p netip.Prefix) bool {
	if l.hasIP(p.Addr()) { // finds prefixes that contain p
		return true
	}
	for n := range l.nets {
		if p.Overlaps(n) {
			return true
		}
	}
	return false
}
