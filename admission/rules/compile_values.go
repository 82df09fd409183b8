package rules

import (
	"cmp"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// limitsOf reads one limit for all tiers, or a mapping from tiers. A tier that is not mentioned gets the default, or without one the
// lowest limit of all, so that an omission never means unlimited.
func limitsOf(n *rulesfile.Node) (limits, error) {
	if !n.IsMapping() {
		all, err := limitOf(n)
		return limits{other: all}, err
	}
	l := limits{tiers: map[string]int{}}
	lowest, other := Unlimited, Unlimited
	explicit := false
	err := n.Pairs("limit", func(at, value *rulesfile.Node) error {
		tier := at.Name()
		if !plainName(tier) {
			return at.Wrong("%q is not the name of a tier, it should be "+names.Length+" of A-Z a-z 0-9 _ . -", tier)
		}
		if _, ok := l.tiers[tier]; ok || tier == "default" && explicit {
			return at.Wrong("limit has %q twice", tier)
		}
		limit, err := limitOf(value)
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
		return limits{}, n.Wrong("limit is empty, it should be such as {registered: 100, default: 10}")
	default:
		l.other = lowest
	}
	return l, nil
}

func limitOf(n *rulesfile.Node) (int, error) {
	if _, err := rulesfile.OneOf(n, "limit", "unlimited"); err == nil {
		return Unlimited, nil
	}
	if limit, err := n.Number("limit", 0, store.MaxLimit); err == nil {
		return limit, nil
	}
	return 0, n.Wrong("limit should be a whole number from 0 (denies all) to %d, or unlimited%s", store.MaxLimit, n.Found())
}

// exceedOf reads the action on excess.
func exceedOf(n *rulesfile.Node) (e Exceed, err error) {
	if !n.IsMapping() {
		e.Action, err = rulesfile.OneOf(n, "on_exceed", Deny, Challenge, Ban)
	} else {
		length := func(key string, to *time.Duration) rulesfile.Field {
			return rulesfile.Into(key, to, func(n *rulesfile.Node) (time.Duration, error) { return n.Duration(key) })
		}
		err = n.Fields("on_exceed",
			rulesfile.Word("action", &e.Action, Deny, Challenge, Ban),
			rulesfile.Number("after", &e.After, 1, 1000),
			length("within", &e.Within), length("for", &e.For), length("at_most", &e.AtMost),
			rulesfile.Bool("growing", &e.Growing),
		)
	}
	switch {
	case err != nil:
		return Exceed{}, err
	case e.Action == "":
		return Exceed{}, n.Wrong("on_exceed has no action, it should be deny, challenge or ban")
	case e.Action != Ban:
		for _, key := range n.Keys() {
			if key.Name() != "action" {
				return Exceed{}, key.Wrong("on_exceed has %s, which is for action: ban", key.Name())
			}
		}
		return e, nil
	}
	e.After = cmp.Or(e.After, 1)
	e.Within = cmp.Or(e.Within, time.Minute)
	e.For = cmp.Or(e.For, 10*time.Minute)
	e.AtMost = cmp.Or(e.AtMost, max(24*time.Hour, e.For))
	if at := n.Key("at_most"); at != nil {
		switch {
		case !e.Growing:
			return Exceed{}, at.Wrong("on_exceed has at_most, which is for growing: true")
		case e.AtMost < e.For:
			return Exceed{}, at.Wrong("at_most is %v, it should not be less than the %v of the first ban", e.AtMost, e.For)
		}
	}
	return e, nil
}
