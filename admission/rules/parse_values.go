package rules

import (
	"cmp"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/rulesfile"
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
	err := s.Pairs(n, "limit", func(tier string, at, value ast.Node) error {
		if !plainName(tier) {
			return s.Wrong(at, "%q is not the name of a tier, it should be 1 to 64 of A-Z a-z 0-9 _ . -", tier)
		}
		if _, ok := l.tiers[tier]; ok || tier == "default" && explicit {
			return s.Wrong(at, "limit has %q twice", tier)
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
		return limits{}, s.Wrong(n, "limit is empty, it should be such as {registered: 100, default: 10}")
	default:
		l.other = lowest
	}
	return l, nil
}

func (s *source) limit(n ast.Node) (int, error) {
	if n, ok := n.(*ast.StringNode); ok && n.Value == "unlimited" {
		return Unlimited, nil
	}
	if limit, err := s.Number(n, "limit", 0, store.MaxLimit); err == nil {
		return limit, nil
	}
	return 0, s.Wrong(n, "limit should be a whole number from 0 (nobody) to %d, or unlimited%s", store.MaxLimit, rulesfile.Found(n))
}

// exceed parses the action on excess.
func (s *source) exceed(n ast.Node) (e Exceed, err error) {
	words := []string{string(Deny), string(Challenge), string(Ban)}
	at := map[string]ast.Node{}
	var first string // first key that applies to bans only
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		keep := func(key string, read func(ast.Node) error) rulesfile.Field {
			return rulesfile.Key(key, func(k, n ast.Node) error {
				at[key], first = k, cmp.Or(first, key)
				return read(n)
			})
		}
		length := func(key string, to *time.Duration) rulesfile.Field {
			return keep(key, func(n ast.Node) (err error) {
				*to, err = s.Duration(n, key)
				return err
			})
		}
		err = s.Mapping(n, "on_exceed",
			rulesfile.Key("action", func(_, n ast.Node) error {
				word, err := s.OneOf(n, "action", words...)
				e.Action = Action(word)
				return err
			}),
			keep("after", func(n ast.Node) (err error) {
				e.After, err = s.Number(n, "after", 1, 1000)
				return err
			}),
			length("within", &e.Within), length("for", &e.For), length("at_most", &e.AtMost),
			keep("growing", func(n ast.Node) (err error) {
				e.Growing, err = s.Bool(n, "growing")
				return err
			}),
		)
		if err == nil && e.Action == "" {
			err = s.Wrong(n, "on_exceed has no action, it should be deny, challenge or ban")
		}
	default:
		var word string
		word, err = s.OneOf(n, "on_exceed", words...)
		e.Action = Action(word)
	}
	if err != nil {
		return Exceed{}, err
	}
	switch {
	case e.Action == Ban:
	case first != "":
		return Exceed{}, s.Wrong(at[first], "on_exceed has %s, which is for action: ban", first)
	default:
		return e, nil
	}
	if e.After == 0 {
		e.After = 1
	}
	if e.Within == 0 {
		e.Within = time.Minute
	}
	if e.For == 0 {
		e.For = 10 * time.Minute
	}
	if e.AtMost == 0 {
		e.AtMost = max(24*time.Hour, e.For)
	}
	if at["at_most"] != nil && !e.Growing {
		return Exceed{}, s.Wrong(at["at_most"], "on_exceed has at_most, which is for growing: true")
	}
	if e.AtMost < e.For {
		return Exceed{}, s.Wrong(at["at_most"], "at_most is %v, it should not be less than the %v of the first ban", e.AtMost, e.For)
	}
	return e, nil
}
