package rules

import (
	"net/netip"
	"slices"
)

// This file decides relations between conditions for the linter. The answers are sound but incomplete: true is certain, false is not.

// contradictory reports whether one of tests excludes everything that another accepts.
func contradictory(tests all) bool {
	var flat []test
	var add func(t test)
	add = func(t test) {
		if several, ok := t.(all); ok {
			for _, part := range several {
				add(part)
			}
			return
		}
		flat = append(flat, t)
	}
	add(tests)
	for i, a := range flat {
		if slices.ContainsFunc(flat[:i], func(b test) bool { return excludes(a, b) || excludes(b, a) }) {
			return true
		}
	}
	return false
}

// covers reports whether a certainly holds wherever b does. Each step takes one of them apart, so that no pair is compared twice.
func covers(a, b test) bool {
	if b, ok := b.(anyOf); ok {
		return forAll(b, func(part test) bool { return covers(a, part) })
	}
	if a, ok := a.(all); ok {
		return forAll(a, func(part test) bool { return covers(part, b) })
	}
	if b, ok := b.(all); ok {
		return slices.ContainsFunc(b, func(part test) bool { return covers(a, part) })
	}
	if b, ok := b.(words); ok && len(b) > 0 {
		return forAll(b, func(word string) bool { return certainly(a, word, true) })
	}
	switch a := a.(type) {
	case anyOf:
		return slices.ContainsFunc(a, func(part test) bool { return covers(part, b) })
	case not:
		return excludes(a.test, b)
	case present:
		return bool(a) && needsValue(b) || !bool(a) && b == test(a)
	case *valueList:
		other, ok := b.(*valueList)
		return ok && a == other
	case numbers, above, below:
		low, high, _ := bounds(a)
		from, to, ok := bounds(b)
		return ok && from.inside(low, 1) && to.inside(high, -1)
	case span:
		other, ok := b.(span)
		return ok && a.from.Compare(other.from) <= 0 && other.to.Compare(a.to) <= 0
	case networks:
		other, ok := b.(networks)
		return ok && forAll(other, func(n netip.Prefix) bool {
			return slices.ContainsFunc(a, func(m netip.Prefix) bool { return m.Bits() <= n.Bits() && m.Contains(n.Addr()) })
		})
	}
	return false
}

// excludes reports whether a certainly never holds where b does.
func excludes(a, b test) bool {
	switch t := a.(type) {
	case anyOf:
		return forAll(t, func(part test) bool { return excludes(part, b) })
	case not:
		return covers(t.test, b)
	case present:
		return covers(!t, b)
	}
	switch t := b.(type) {
	case anyOf:
		return forAll(t, func(part test) bool { return excludes(a, part) })
	case not:
		return covers(t.test, a)
	case present:
		return covers(!t, a)
	case all:
		return slices.ContainsFunc(t, func(part test) bool { return excludes(a, part) })
	}
	switch a := a.(type) {
	case all:
		return slices.ContainsFunc(a, func(part test) bool { return excludes(part, b) })
	case words:
		return forAll(a, func(word string) bool { return certainly(b, word, false) })
	case routes:
		other, ok := b.(routes)
		return ok && forAll(a, func(r route) bool { return !slices.ContainsFunc(other, r.overlaps) })
	case networks:
		other, ok := b.(networks)
		return ok && forAll(other, func(n netip.Prefix) bool { return !slices.ContainsFunc(a, n.Overlaps) })
	}
	low, high, ok := bounds(a)
	from, to, both := bounds(b)
	return ok && both && (low.past(to) || from.past(high))
}

func forAll[T any](of []T, is func(T) bool) bool {
	return !slices.ContainsFunc(of, func(one T) bool { return !is(one) })
}

// certainly reports whether t returns holds for word, both as an attribute and as another part.
func certainly(t test, word string, holds bool) bool {
	return t.holds(value{text: word}) == holds && t.holds(value{text: word, attribute: true}) == holds
}

// needsValue reports whether t holds only if the part is present.
func needsValue(t test) bool {
	switch t := t.(type) {
	case not:
		return covers(t.test, present(false))
	case present:
		return bool(t)
	case all:
		return slices.ContainsFunc(t, needsValue)
	case anyOf:
		return forAll(t, needsValue)
	}
	return true
}

// emptyList returns the name of an empty list in t, or "".
func emptyList(t test) string {
	var parts []test
	switch t := t.(type) {
	case *valueList:
		if t.none() {
			return t.name
		}
	case not:
		return emptyList(t.test)
	case all:
		parts = t
	case anyOf:
		parts = t
	}
	for _, part := range parts {
		if name := emptyList(part); name != "" {
			return name
		}
	}
	return ""
}

// An edge is an end of the range of numbers that a test accepts. The zero value is no edge.
type edge struct {
	is   bool
	n    number
	open bool // n itself is excluded
}

// bounds returns the edges of a numeric test.
func bounds(t test) (low, high edge, ok bool) {
	switch t := t.(type) {
	case numbers:
		return edge{true, t.from, false}, edge{true, t.to, false}, true
	case above:
		return edge{true, number(t), true}, edge{}, true
	case below:
		return edge{}, edge{true, number(t), true}, true
	}
	return edge{}, edge{}, false
}

// past reports whether the range that begins at e does not overlap the range that ends at high.
func (e edge) past(high edge) bool {
	return e.is && high.is && (e.n.compare(high.n) > 0 || e.n.compare(high.n) == 0 && (e.open || high.open))
}

// inside reports whether e is at or within the bound other: side is 1 for lower bounds, -1 for upper ones.
func (e edge) inside(other edge, side int) bool {
	if !other.is {
		return true
	}
	c := e.n.compare(other.n) * side
	return e.is && (c > 0 || c == 0 && (e.open || !other.open))
}
