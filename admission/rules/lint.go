package rules

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A Warning is a place of a rules file that is valid but probably a mistake.
type Warning struct {
	Line int    // from 1; of rules given to Of, the number of the rule
	Rule string // its name; empty for none
	Text string
	Note bool // for information only, not a mistake
}

// A Server is the program that decides by rules, as far as it matters for Lint. Warnings that need an empty field are left out.
type Server struct {
	TrustedProxies bool     // it resolves the addresses of clients behind proxies
	Public         []string // patterns of the routes whose requests have a user, a tier and an address, and no other parts
	Admit          string   // the route whose callers name all parts of a request, with attributes of any name
	Gateways       string   // the route for gateways, where attributes are header fields, so that their names have small letters
}

// Lint returns probable mistakes in rules, in the order of the file. A warning that applies to several rules is reported once, at the
// first of them.
func Lint(rules *Set, server Server) []Warning {
	l := linter{rules: rules.rules, warnings: slices.Clone(rules.doubts), named: map[string]bool{}, server: server}
	for _, pattern := range server.Public {
		l.public = append(l.public, appendSegments(nil, pattern))
	}
	for i := range l.rules {
		r := &l.rules[i]
		l.unreached(i, r)
		l.contradictory(r)
		l.behindAnother(i, r)
		l.passedOver(i, r)
		l.mistyped(r)
		l.neverSent(r)
		l.costless(r)
		if r.OnExceed.Action == Ban && len(rules.never) == 0 && slices.ContainsFunc(r.subject, isAddress) {
			l.warn(r, "it bans addresses, and behind one there may be many people. Name those that must never be shut out in bans.allow")
		}
		if r.OnStoreError == FailClosed && r.match.always() {
			l.warn(r, "it is closed and matches everything: while the store is down it denies every request. Give it a match, or make it local")
		}
		if !server.TrustedProxies && r.looksAtAddresses() {
			l.warn(r, "it looks at addresses: behind a proxy that TRUSTED_PROXIES does not name, everybody has the proxy's address")
		}
		if r.Shadow {
			l.warn(r, "it is in shadow and denies nothing. Once its numbers are right, leave out shadow")
			l.warnings[len(l.warnings)-1].Note = true
		}
	}
	l.crowded()
	slices.SortStableFunc(l.warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return once(l.warnings)
}

type linter struct {
	rules    []rule
	warnings []Warning
	named    map[string]bool // attributes already warned about
	server   Server
	public   []route // of server
}

// once keeps the first of equal warnings and adds the names of the other rules to it.
func once(warnings []Warning) []Warning {
	var first []Warning
	others := map[string][]string{}
	for _, w := range warnings {
		i := slices.IndexFunc(first, func(f Warning) bool { return f.Text == w.Text })
		switch {
		case i < 0:
			first = append(first, w)
		case first[i].Rule != w.Rule && !slices.Contains(others[w.Text], w.Rule):
			others[w.Text] = append(others[w.Text], w.Rule)
		}
	}
	for i := range first {
		if also := others[first[i].Text]; also != nil {
			first[i].Text += " (also: " + strings.Join(also, ", ") + ")"
		}
	}
	return first
}

func (l *linter) warn(r *rule, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{Line: r.line, Rule: r.Name, Text: fmt.Sprintf(format, args...)})
}

// unreached warns about a rule after a direct rule that decides every request.
func (l *linter) unreached(i int, r *rule) {
	switch o := l.ender(i); {
	case o == nil:
	case o.match.always():
		l.warn(r, "it never decides: rule %s before it decides every request (%s). Move it up, or give %s a match", o.Name, o.Direct, o.Name)
	default:
		l.warn(r, "it never decides: rule %s before it has the same match and decides (%s). Move it up, or leave it out", o.Name, o.Direct)
	}
}

// ender returns the first direct rule that decides all requests of the i-th rule, which is after it; nil if there is none.
func (l *linter) ender(i int) *rule {
	for j := range i {
		if o := &l.rules[j]; o.Direct != "" && !o.Shadow && (o.match.always() || o.match.equal(l.rules[i].match)) {
			return o
		}
	}
	return nil
}

// contradictory warns about conditions that never hold.
func (l *linter) contradictory(r *rule) {
	matches := []match{r.match}
	for _, o := range r.overrides {
		matches = append(matches, o.match)
	}
	for _, m := range matches {
		for i := range m {
			c := &m[i]
			if name := emptyList(c.test); name != "" {
				l.warn(r, "list %s is empty. Fill it, or leave out the condition `%s`", name, c.text)
			}
			if tests, ok := c.test.(all); ok && contradictory(tests) {
				l.warn(r, "the condition `%s` never holds, its parts exclude each other. Leave one out", c.text)
			}
		}
	}
	for i := range r.match {
		c := &r.match[i]
		if excludes(c.test, present(true)) && slices.Contains(r.subject, c.part) {
			l.warn(r, "it never counts a request: its subject needs %s, and its match selects only requests without it. Change one of them", c.part)
		}
	}
}

// always reports whether m holds for every request.
func (m match) always() bool {
	return !slices.ContainsFunc(m, func(c condition) bool {
		r, ok := c.test.(routes)
		return !ok || !slices.ContainsFunc(r, func(r route) bool { return slices.Equal(r, route{"**"}) })
	})
}

// behindAnother warns about limits that are never reached, because another limit is reached first.
func (l *linter) behindAnother(i int, r *rule) {
	for w := range r.windows {
		for j := range l.rules {
			o := &l.rules[j]
			for v := range o.windows {
				if (i != j || w != v) && stops(o, v, r, w) && !(stops(r, w, o, v) && j > i) && !l.endsBetween(i, j) {
					l.warn(r, "its limit in %v is never reached, %s in %v comes first. Leave it out, or make it lower", r.windows[w].Window, o.Name,
						o.windows[v].Window)
					return
				}
			}
		}
	}
}

// endsBetween reports whether a direct rule between the i-th and the j-th rule admits some requests that the i-th rule counts.
func (l *linter) endsBetween(i, j int) bool {
	return i < j && slices.ContainsFunc(l.rules[i:j], func(r rule) bool { return r.Direct == Allow && !r.Shadow })
}

// stops reports whether window v of o refuses at least every request that r's window w would refuse: it counts the same requests of the
// same subject, and admits no more of them in at least as long a time.
func stops(o *rule, v int, r *rule, w int) bool {
	a, b := &o.windows[v], &r.windows[w]
	bounds := []store.Algorithm{store.SlidingLog, store.SlidingCounter, store.FixedWindow} // the units in a window by its limit
	if !slices.Contains(bounds[:2], a.Algorithm) || !slices.Contains(bounds, b.Algorithm) {
		return false
	}
	if o.Shadow || r.CountRejected || o.cost != r.cost || o.costFrom != r.costFrom || !slices.Equal(o.subject, r.subject) ||
		!slices.Equal(o.joint, r.joint) {
		return false
	}
	if !o.match.always() && !o.match.equal(r.match) || a.Window.Length < longest(b.Window) || !a.limit.within(b.limit) {
		return false
	}
	if o != r {
		return len(o.overrides)+len(r.overrides) == 0
	}
	return !slices.ContainsFunc(r.overrides, func(o override) bool { return !o.limits[v].within(o.limits[w]) })
}

func (m match) equal(o match) bool {
	return slices.EqualFunc(m, o, func(a, b condition) bool { return a.part == b.part && reflect.DeepEqual(a.test, b.test) })
}

// longest returns the maximum length of w.
func longest(w store.Window) time.Duration {
	if w.Calendar == nil {
		return w.Length
	}
	return map[string]time.Duration{
		"minute": time.Minute, "hour": time.Hour, "day": 25 * time.Hour, "month": 31*24*time.Hour + time.Hour,
	}[w.Calendar.Unit]
}

// within reports whether l limits every tier to at most the limit of o.
func (l limits) within(o limits) bool {
	fits := func(l, o int) bool { return l != Unlimited && (o == Unlimited || l <= o) }
	ok := fits(l.other, o.other)
	for tier := range l.tiers {
		ok = ok && fits(l.of(tier), o.of(tier))
	}
	for tier := range o.tiers {
		ok = ok && fits(l.of(tier), o.of(tier))
	}
	return ok && (o.other != Unlimited || o.tiers != nil)
}

// otherNames maps common names to the part of a request that they mean, in the form that plain returns.
var otherNames = map[string]string{
	"uid": "user", "userid": "user", "username": "user", "addr": "ip", "address": "ip", "ipaddress": "ip", "clientip": "ip",
	"remoteaddr": "ip",
	"deviceid":   "device", "sessionid": "session", "path": "route", "uri": "route",
}

// plain normalizes a name: it ignores case and word separators.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}

// mistyped warns about attributes whose names resemble a part of a request, once for each.
func (l *linter) mistyped(r *rule) {
	names := slices.Clone(r.subject)
	for i := range r.match {
		names = append(names, r.match[i].part)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !isAttribute(name) {
			continue
		}
		meant := otherNames[plain(name)]
		for _, part := range append([]string{"network", "caller"}, parts...) {
			if len(part) > 3 && oneApart(plain(name), part) {
				meant = part
			}
		}
		if meant != "" && !l.named[name] {
			l.named[name] = true
			l.warn(r, "%s is an attribute of the request's own. If %s is meant, write that", name, meant)
		}
	}
}

// oneApart reports whether a and b differ by one inserted, deleted or changed letter, or by two swapped ones.
func oneApart(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case len(a) == len(b) && len(a) > 1 && a[0] == b[1] && a[1] == b[0]:
		return a[2:] == b[2:]
	case len(a) == len(b):
		return len(a) == 0 || a[1:] == b[1:]
	case len(a) < len(b):
		return a == b[1:]
	}
	return a[1:] == b
}

// isAddress reports whether a part of a subject is, or can be, the client's address.
func isAddress(part string) bool { return part == "ip" || part == "network" || part == "caller" }

// looksAtAddresses reports whether r depends on the client's address.
func (r *rule) looksAtAddresses() bool {
	ofAddress := func(c condition) bool { return c.part == "ip" }
	return slices.ContainsFunc(r.subject, isAddress) ||
		slices.ContainsFunc(r.match, ofAddress) ||
		slices.ContainsFunc(r.overrides, func(o override) bool { return slices.ContainsFunc(o.match, ofAddress) })
}
