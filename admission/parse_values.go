package admission

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

func (s source) match(n ast.Node) (m match, err error) {
	err = s.mapping(n, "match",
		field{"route", func(_, n ast.Node) error {
			return s.oneOrMore(n, "route", func(n ast.Node) error {
				text, err := s.text(n, "route")
				if err != nil {
					return err
				}
				r, err := parseRoute(text)
				if err != nil {
					return s.wrong(n, "route %q: %v", text, err)
				}
				m.routes = append(m.routes, r)
				return nil
			})
		}},
		field{"method", func(_, n ast.Node) error {
			return s.oneOrMore(n, "method", func(n ast.Node) error {
				method, err := s.word(n, "method", methodNames, "capitals, such as POST")
				m.methods = append(m.methods, method)
				return err
			})
		}},
		field{"tier", func(_, n ast.Node) error {
			return s.oneOrMore(n, "tier", func(n ast.Node) error {
				tier, err := s.word(n, "tier", tierNames, "1 to 64 of A-Z a-z 0-9 _ . -")
				m.tiers = append(m.tiers, tier)
				return err
			})
		}},
	)
	return m, err
}

func (s source) subject(n ast.Node) (parts []string, err error) {
	err = s.oneOrMore(n, "subject", func(n ast.Node) error {
		part, err := s.word(n, "a part of subject", attributeNames,
			"user, ip, caller, device, session, or the name of an attribute (a-z 0-9 _)")
		switch {
		case err != nil:
			return err
		case slices.Contains(parts, part):
			return s.wrong(n, "subject has %q twice", part)
		}
		parts = append(parts, part)
		return nil
	})
	return parts, err
}

// limits reads one limit for everybody, or a mapping from tiers. A tier that is not mentioned gets the
// default, and without one the lowest limit of all: nobody should be unlimited by an oversight.
func (s source) limits(n ast.Node) (limits, error) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		all, err := s.limit(n)
		return limits{other: all}, err
	}
	l := limits{tiers: map[string]int{}}
	lowest, other := Unlimited, Unlimited
	explicit := false
	err := s.pairs(n, "limit", func(tier string, at, value ast.Node) error {
		if !tierNames.MatchString(tier) {
			return s.wrong(at, "%q is not the name of a tier, it should be 1 to 64 of A-Z a-z 0-9 _ . -", tier)
		}
		if _, ok := l.tiers[tier]; ok || tier == "default" && explicit {
			return s.wrong(at, "limit has %q twice", tier)
		}
		limit, err := s.limit(value)
		if err != nil {
			return err
		}
		if tier == "default" {
			explicit, other = true, limit
			return nil
		}
		l.tiers[tier] = limit
		if lowest == Unlimited || limit != Unlimited && limit < lowest {
			lowest = limit
		}
		return nil
	})
	switch {
	case err != nil:
		return limits{}, err
	case explicit:
		l.other = other
	case len(l.tiers) == 0:
		return limits{}, s.wrong(n, "limit is empty, it should be such as {registered: 100, default: 10}")
	default:
		l.other = lowest
	}
	return l, nil
}

func (s source) limit(n ast.Node) (int, error) {
	if n, ok := n.(*ast.StringNode); ok && n.Value == "unlimited" {
		return Unlimited, nil
	}
	if limit, err := s.number(n, "limit", 0, MaxLimit); err == nil {
		return limit, nil
	}
	return 0, s.wrong(n, "limit should be a whole number from 0 (nobody) to %d, or unlimited%s", MaxLimit, found(n))
}

func (s source) duration(n ast.Node) (time.Duration, error) {
	if n, ok := n.(*ast.StringNode); ok {
		d, err := time.ParseDuration(n.Value)
		if err == nil && minWindow <= d && d <= maxWindow && d%time.Millisecond == 0 {
			return d, nil
		}
	}
	return 0, s.wrong(n, "window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h%s", found(n))
}

// word reads a text of a given form.
func (s source) word(n ast.Node, what string, form *regexp.Regexp, right string) (string, error) {
	text, err := s.text(n, what)
	if err != nil {
		return "", err
	}
	if !form.MatchString(text) {
		return "", s.wrong(n, "%s should be %s, here is %.40q", what, right, text)
	}
	return text, nil
}

func (s source) oneOf(n ast.Node, what string, words ...string) error {
	if n, ok := n.(*ast.StringNode); ok && slices.Contains(words, n.Value) {
		return nil
	}
	return s.wrong(n, "%s should be %s%s", what, strings.Join(words, " or "), found(n))
}
