package admission

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/netip"
	"slices"
	"sync"
)

// Rules are the parsed rules of one file, in its order. Make them with ParseRules or DefaultRules; the zero value limits nothing. Rules
// are immutable, so they are safe for concurrent use.
type Rules struct {
	rules   []rule
	first   bool // the first rule that refuses decides, not the strongest
	source  []byte
	version string
	load    func() (*Rules, error) // for Reload; nil: not reloadable
	files   []string               // the files that the rules were read from
	never   []*valueList           // lists of targets that are never banned
	idle    []Warning              // about settings without effect
	script  BanScript

	semaphores []SemaphoreRule
	login      []LoginRule
}

//go:embed default.yaml
var defaultSource []byte

// DefaultRules returns the built-in rules, which apply if no file is configured.
func DefaultRules() *Rules { return defaultRules() }

var defaultRules = sync.OnceValue(func() *Rules {
	rules, err := ParseRules("default.yaml", defaultSource)
	if err != nil {
		panic(err) // the file is embedded and tested
	}
	return rules
})

// Version identifies the content of the rules: equal files have equal versions.
func (r *Rules) Version() string { return r.version }

// has reports whether there is a rule of this name.
func (r *Rules) has(name string) bool {
	return slices.ContainsFunc(r.rules, func(r rule) bool { return r.name == name })
}

// Source returns the file as it was parsed.
func (r *Rules) Source() []byte { return bytes.Clone(r.source) }

// Semaphores returns the semaphores of the file, in its order. This package does not act on them.
func (r *Rules) Semaphores() []SemaphoreRule { return slices.Clone(r.semaphores) }

// Login returns the login rules of the file, in its order, or those of DefaultRules if it has none. This package does not act on them.
func (r *Rules) Login() []LoginRule {
	if len(r.login) == 0 {
		r = defaultRules()
	}
	return slices.Clone(r.login)
}

// Files returns the files that the rules were read from: the rules file, if any, and the files of lists.
func (r *Rules) Files() []string { return slices.Clone(r.files) }

// Reloadable returns a copy of r that a Gate can reload: Gate.Reload calls load, and Gate.Run does so whenever one of files, or a file of
// a list in r, changes. Use it for rules that are translated from another format. load should return Reloadable rules too, or no further
// reload is possible. It is called by one goroutine at a time. Rules with the Version of those in force change nothing, so everything
// that load translates must be part of the text passed to ParseRules.
func (r *Rules) Reloadable(load func() (*Rules, error), files ...string) *Rules {
	again := *r
	again.load, again.files = load, slices.Concat(files, r.files)
	return &again
}

// seal computes the version from everything that the rules were read from.
func (r *Rules) seal(lists [][]byte) {
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
func (r *Rules) NeverBanned(user, device string, ip netip.Addr) (list string) {
	ip = ip.Unmap().WithZone("")
	for _, l := range r.never {
		if l.names(user) || l.names(device) || ip.IsValid() && l.hasIP(ip) {
			return l.name
		}
	}
	return ""
}
