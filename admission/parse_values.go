package admission

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// limits parses one limit for all tiers, or a mapping from tiers. A tier that is not mentioned gets the default, or without one the
// lowest limit of all, so that an omission never means unlimited.
func (s *source) limits(n ast.Node) (limits, error) {
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
		if !plainName(tier) {
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

func (s *source) limit(n ast.Node) (int, error) {
	if n, ok := n.(*ast.StringNode); ok && n.Value == "unlimited" {
		return Unlimited, nil
	}
	if limit, err := s.number(n, "limit", 0, MaxLimit); err == nil {
		return limit, nil
	}
	return 0, s.wrong(n, "limit should be a whole number from 0 (nobody) to %d, or unlimited%s", MaxLimit, found(n))
}

// word parses a string of a given form.
func (s *source) word(n ast.Node, what string, valid func(string) bool, right string) (string, error) {
	text, err := s.text(n, what)
	if err != nil {
		return "", err
	}
	if !valid(text) {
		return "", s.wrong(n, "%s should be %s, here is %.40q", what, right, text)
	}
	return text, nil
}

// either formats words as in "open, closed or local".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// oneOf parses one of a few words.
func (s *source) oneOf(n ast.Node, what string, words ...string) (string, error) {
	if n, ok := n.(*ast.StringNode); ok && slices.Contains(words, n.Value) {
		return n.Value, nil
	}
	return "", s.wrong(n, "%s should be %s%s", what, either(words), found(n))
}
