package rules

import (
	"net/netip"
	"slices"
	"strings"
)

// match is the conditions under which a rule applies; all of them must hold. An empty match always holds.
type match []condition

// A condition tests one part of a request.
type condition struct {
	part string // route, method, tier, user, ip, device, session, or the name of an attribute
	text string // as written in the file
	test test
}

// A test is a predicate on one part of a request.
type test interface{ holds(v value) bool }

// A value is one part of a request. A part that the request lacks is the empty string.
type value struct {
	text string
	ip   netip.Addr // for the part ip
	path []string   // segments, for the part route

	attribute bool // text is the value of an attribute, which may be an address
}

// holds reports whether m holds for req, whose route has these segments.
func (m match) holds(req *Request, path []string) bool { return m.failing(req, path) == nil }

// failing returns the first condition that does not hold, or nil.
func (m match) failing(req *Request, path []string) *condition {
	for i := range m {
		v := req.value(m[i].part)
		v.path = path
		if !m[i].test.holds(v) {
			return &m[i]
		}
	}
	return nil
}

func (v value) present() bool { return v.text != "" || v.ip.IsValid() }

// address returns v as an address, also if v is an attribute; the zero Addr if it is not one.
func (v value) address() netip.Addr {
	if !v.attribute || len(v.text) > 45 || !strings.ContainsAny(v.text, ".:") { // an error of ParseAddr would be an allocation
		return v.ip
	}
	ip, _ := netip.ParseAddr(v.text) // of what is no address the zero Addr
	return ip.Unmap().WithZone("")
}

type (
	words    []string       // any of a few
	routes   []route        // any of these patterns
	not      struct{ test } // also where the part is missing
	all      []test
	anyOf    []test
	above    number
	below    number
	whole    bool
	present  bool
	numbers  struct{ from, to number }
	span     struct{ from, to netip.Addr }
	networks []netip.Prefix
)

func (t words) holds(v value) bool { return v.text != "" && slices.Contains(t, v.text) }

// fewValues are compared one by one; of more, one is looked up.
const fewValues = 16

func (t words) indexed() test {
	if len(t) <= fewValues {
		return t
	}
	l := newList("")
	for _, word := range t {
		l.words[word] = struct{}{}
	}
	return l
}

func (t networks) indexed() test {
	if len(t) <= fewValues {
		return t
	}
	l := newList("")
	for _, p := range t {
		l.addNetwork(p)
	}
	return l
}

func (t routes) holds(v value) bool {
	return v.text != "" && slices.ContainsFunc(t, func(r route) bool { return r.matches(v.path) })
}

func (t not) holds(v value) bool { return !t.test.holds(v) }

func (t all) holds(v value) bool {
	return !slices.ContainsFunc(t, func(part test) bool { return !part.holds(v) })
}

func (t anyOf) holds(v value) bool {
	return slices.ContainsFunc(t, func(part test) bool { return part.holds(v) })
}

func (t above) holds(v value) bool {
	n, ok := parseNumber(v.text)
	return ok && n.compare(number(t)) > 0
}

func (t below) holds(v value) bool {
	n, ok := parseNumber(v.text)
	return ok && n.compare(number(t)) < 0
}

func (t whole) holds(v value) bool {
	n, ok := parseNumber(v.text)
	return (ok && n.digits) == bool(t)
}

func (t present) holds(v value) bool { return v.present() == bool(t) }

func (t numbers) holds(v value) bool {
	n, ok := parseNumber(v.text)
	return ok && t.from.compare(n) <= 0 && n.compare(t.to) <= 0
}

func (t span) holds(v value) bool {
	ip := v.address()
	return ip.IsValid() && ip.BitLen() == t.from.BitLen() && t.from.Compare(ip) <= 0 && ip.Compare(t.to) <= 0
}

func (t networks) holds(v value) bool {
	ip := v.address()
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(ip) })
}
