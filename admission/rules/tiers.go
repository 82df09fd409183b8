package rules

import (
	"maps"
	"slices"
)

// Tiers returns the tiers that have limits in the rules, sorted, and the two default tiers.
func (r *Set) Tiers() []string {
	named := map[string]bool{TierRegistered: true, TierAnonymous: true}
	add := func(l limits) {
		for tier := range l.tiers {
			named[tier] = true
		}
	}
	for i := range r.rules {
		for _, w := range r.rules[i].windows {
			add(w.limit)
		}
		for _, o := range r.rules[i].overrides {
			for _, l := range o.limits {
				add(l)
			}
		}
	}
	return slices.Sorted(maps.Keys(named))
}
