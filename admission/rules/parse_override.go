package rules

import (
	"cmp"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

const maxOverrides = 1000

// An overrideDraft is an override whose limits are not yet matched to the rule's windows.
type overrideDraft struct {
	node    ast.Node
	match   match
	limit   *limits
	windows []windowDraft
}

// overrides parses different limits for some requests.
func (s *source) overrides(n ast.Node) (drafts []overrideDraft, err error) {
	err = s.List(n, "overrides", func(n ast.Node) error {
		o := overrideDraft{node: n}
		err := s.Mapping(n, "an override",
			rulesfile.Key("match", func(_, n ast.Node) (err error) {
				o.match, err = s.match(n)
				return err
			}),
			rulesfile.Key("limit", func(_, n ast.Node) error {
				l, err := s.limits(n)
				o.limit = &l
				return err
			}),
			rulesfile.Key("windows", func(_, n ast.Node) (err error) {
				o.windows, err = s.windows(n)
				return err
			}),
		)
		switch {
		case err != nil:
			return err
		case o.match == nil || (o.limit == nil) == (o.windows == nil):
			return s.Wrong(n, "an override should have match and either limit or windows, such as {match: {user: {list: office}}, limit: unlimited}")
		case len(drafts) == maxOverrides:
			return s.Wrong(n, "the rule has more than %d overrides", maxOverrides)
		}
		drafts = append(drafts, o)
		return nil
	})
	return drafts, err
}

// finishOverrides sorts the limits of the overrides into the order of the rule's windows.
func (s *source) finishOverrides(d *draft) error {
	for _, o := range d.overridden {
		done := override{match: o.match, limits: make([]limits, len(d.several))}
		switch all := o.limit; {
		case all == nil:
			if len(o.windows) != len(d.several) {
				return s.Wrong(o.node, "the override has %d windows, it should have the %d of the rule", len(o.windows), len(d.several))
			}
			for i := range d.several {
				at := slices.IndexFunc(o.windows, func(w windowDraft) bool {
					return sameSpan(w.Window, d.several[i].Window) && (w.Algorithm == "" || w.Algorithm == d.several[i].Algorithm)
				})
				if at < 0 {
					return s.Wrong(o.node, "the override has no window of %v, it should have the windows of the rule", d.several[i].Window)
				}
				w := &o.windows[at]
				if w.Burst > 0 || w.Base != nil {
					return s.Wrong(cmp.Or(w.at["burst"], w.at["base"]), "an override has no burst and no base, the rule's hold")
				}
				done.limits[i] = w.limit
			}
		case len(d.several) > 1 && (all.tiers != nil || all.other > 0):
			return s.Wrong(o.node, "rule %q has %d windows: the override should have windows as well, or limit: 0 or unlimited", d.Name, len(d.several))
		default:
			for i := range done.limits {
				done.limits[i] = *all
			}
		}
		d.rule.overrides = append(d.rule.overrides, done)
	}
	return nil
}
