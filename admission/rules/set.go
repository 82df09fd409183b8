package rules

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/netip"
	"slices"
	"sync"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

// A Set is rules in their order. Make it with Parse, Load, Default or Of; the zero value limits nothing. It is immutable, so it is safe
// for concurrent use.
type Set struct {
	rules   []rule
	first   bool // the first rule that refuses decides, not the strongest
	source  []byte
	version string
	err     error                // of Of
	load    func() (*Set, error) // for Live.Reload; nil: not reloadable
	files   []string             // the files that the rules were read from
	lists   map[string]*valueList
	never   []*valueList // lists of targets that are never banned
	doubts  []Warning    // found while parsing

	sections *rulesfile.Sections
}

//go:embed default.yaml
var defaultSource []byte

// Default returns the built-in rules, which apply if no file is configured.
func Default() *Set { return defaultRules() }

var defaultRules = sync.OnceValue(func() *Set {
	rules, err := Parse("default.yaml", defaultSource)
	if err != nil {
		panic(err) // the file is embedded and tested
	}
	return rules
})

// FirstDecides reports whether the first rule that refuses decides, not the strongest.
func (r *Set) FirstDecides() bool { return r.first }

// Version identifies the content of the rules: equal files have equal versions.
func (r *Set) Version() string { return r.version }

// Err returns the error of rules made by Of, or nil. Such a set has no rules.
func (r *Set) Err() error { return r.err }

// Has reports whether there is a rule of this name.
func (r *Set) Has(name string) bool {
	return slices.ContainsFunc(r.rules, func(r rule) bool { return r.Name == name })
}

// Source returns the file as it was parsed.
func (r *Set) Source() []byte { return bytes.Clone(r.source) }

// Sections returns the sections of the file that other packages parse, by their Section.
func (r *Set) Sections() *rulesfile.Sections { return r.sections }

// Files returns the files that the rules were read from: the rules file, if any, and the files of lists.
func (r *Set) Files() []string { return slices.Clone(r.files) }

// Reloadable returns a copy of r that Live can reload: Live.Reload calls load, and Live.Run does so whenever one of files, or a file of
// a list in r, changes. Use it for rules that are translated from another format. load should return Reloadable rules too, or no further
// reload is possible. It is called by one goroutine at a time. Rules with the Version of those in force change nothing, so everything
// that load translates must be part of the text passed to Parse.
func (r *Set) Reloadable(load func() (*Set, error), files ...string) *Set {
	again := *r
	again.load, again.files = load, slices.Concat(files, r.files)
	return &again
}

// emptied returns an error if a file of a list has no bytes, and the list had values in old: a program that fails, or a full
// disk, leaves such a file, and everybody on the list would be let in.
func (r *Set) emptied(old *Set) error {
	for name, l := range r.lists {
		if was := old.lists[name]; l.blankFile != "" && was != nil && !was.none() {
			return &Error{
				File: l.blankFile, Line: 1, Column: 1,
				Problem: "the file of list " + name + ` has become empty; one that should hold nothing has a comment, such as "# none"`,
			}
		}
	}
	return nil
}

// seal computes the version from everything that the rules were read from.
func (r *Set) seal(lists [][]byte) {
	h := sha256.New()
	h.Write(r.source)
	for _, content := range lists {
		sum := sha256.Sum256(content)
		h.Write(sum[:])
	}
	r.source = bytes.Clone(r.source)
	r.version = hex.EncodeToString(h.Sum(nil)[:6])
}

// NeverBanned returns the list of `bans: {allow: …}` that contains the user, the device or the address, or "".
func (r *Set) NeverBanned(user, device string, ip netip.Addr) (list string) {
	ip = ip.Unmap().WithZone("")
	for _, l := range r.never {
		if l.names(user) || l.names(device) || ip.IsValid() && l.hasIP(ip) {
			return l.name
		}
	}
	return ""
}

// NeverBannedIn returns the list of `bans: {allow: …}` that contains an address of the network p, or "". Rules may ban a network around
// such an address and still admit that address; a firewall has no such exception.
func (r *Set) NeverBannedIn(p netip.Prefix) (list string) {
	for _, l := range r.never {
		if l.overlaps(p) {
			return l.name
		}
	}
	return ""
}
