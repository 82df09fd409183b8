package rules

import (
	"reflect"
	"slices"
	"strings"
)

// This file holds the linter's knowledge of requests: which parts they may lack, and how they get their attributes.

// passedOver warns about requests that r does not count because they lack a part of its subject, unless the file shows that this is
// intended.
func (l *linter) passedOver(i int, r *rule) {
	for _, part := range r.subject {
		if isAddress(part) || r.match.needs(part) || l.decidesWithout(i, part) {
			continue
		}
		remedy := "Decide about them in a direct rule before it"
		if part == "user" {
			remedy = "Count caller, which is the address of whoever has no user"
		}
		l.warn(r, "it lets requests without %s pass uncounted. %s, or match `%s: {present: true}` if that is meant", part, remedy, part)
	}
}

// needs reports whether m holds for no request that lacks part, or only for such requests, for which there is another warning.
func (m match) needs(part string) bool {
	return slices.ContainsFunc(m, func(c condition) bool {
		lacking, about := c.without(part)
		return about && (!c.test.holds(lacking) || c.part == part && excludes(c.test, present(true)))
	})
}

// without returns the value of c's part in requests that lack part, and whether that value is certain.
func (c *condition) without(part string) (value, bool) {
	if part == "user" && c.part == "tier" {
		return value{text: TierAnonymous}, true
	}
	return value{attribute: isAttribute(part)}, c.part == part
}

// decidesWithout reports whether some rule covers exactly the requests that the i-th rule skips because they lack part.
func (l *linter) decidesWithout(i int, part string) bool {
	of := l.rules[i].match
	for j := range l.rules {
		o := &l.rules[j]
		if o.Shadow || slices.Contains(o.subject, part) || o.Direct != "" && j > i {
			continue
		}
		meant := o.Direct != ""
		all := forAll(o.match, func(c condition) bool {
			if lacking, about := c.without(part); about {
				meant = true
				return c.test.holds(lacking)
			}
			return slices.ContainsFunc(of, func(of condition) bool {
				return c.part == of.part && (reflect.DeepEqual(c.test, of.test) || covers(c.test, of.test))
			})
		})
		if all && meant {
			return true
		}
	}
	return false
}

// costless warns about a cost taken from an attribute that buyers' requests lack: such requests cannot be decided.
func (l *linter) costless(r *rule) {
	if r.costFrom == "" || r.match.needs(r.costFrom) || !l.mayBePublic(r.match) {
		return
	}
	l.warn(r, "its cost is the attribute %s, which requests on Tidegate's public routes do not have: they cannot be decided and get 500. "+
		"Match `%s: {present: true}`, or routes of your own", r.costFrom, r.costFrom)
}

// mayBePublic reports whether m may hold on a public route.
func (l *linter) mayBePublic(m match) bool {
	return len(l.public) > 0 && forAll(m, func(c condition) bool {
		patterns, ok := c.test.(routes)
		return !ok || slices.ContainsFunc(patterns, func(pattern route) bool {
			return slices.ContainsFunc(l.public, func(of route) bool { return pattern.matches(of) || of.matches(pattern) })
		})
	})
}

// neverSent warns about attributes that the requests matched by r cannot have.
func (l *linter) neverSent(r *rule) {
	names := slices.Clone(r.subject)
	for i := range r.match {
		names = append(names, r.match[i].part)
	}
	for _, o := range r.overrides {
		for i := range o.match {
			names = append(names, o.match[i].part)
		}
	}
	slices.Sort(names)
	public := l.onPublicRoutes(r.match)
	for _, name := range slices.Compact(names) {
		switch {
		case public && (isAttribute(name) || name == "device" || name == "session"):
			l.warn(r, "requests on this route of Tidegate's never have %s: only %s and gateways send it. Leave it out, or match a route of your "+
				"own", name, l.server.Admit)
		case l.server.Gateways != "" && isAttribute(name) && name != strings.ToLower(name) && !l.named[name]:
			l.named[name] = true
			l.warn(r, "%s never comes through %s, where names have small letters. Write %s, unless only %s sends it",
				name, l.server.Gateways, strings.ToLower(name), l.server.Admit)
		}
	}
}

// onPublicRoutes reports whether m holds only on public routes.
func (l *linter) onPublicRoutes(m match) bool {
	return slices.ContainsFunc(m, func(c condition) bool {
		patterns, ok := c.test.(routes)
		return ok && forAll(patterns, func(pattern route) bool {
			return !slices.Contains(pattern, "**") && slices.ContainsFunc(l.public, func(of route) bool { return of.matches(pattern) })
		})
	})
}
