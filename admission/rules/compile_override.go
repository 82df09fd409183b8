package rules

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

const maxOverrides = 1000

// An overrideDraft is an override whose limits are not yet matched to the rule's windows.
type overrideDraft struct {
	node    *rulesfile.Node
	match   match
	limit   *limits
	windows []windowDraft
}

// overrides reads different limits for some requests.
func (c *compiler) overrides(n *rulesfile.Node) (drafts []overrideDraft, err error) {
	err = n.List("overrides", func(n *rulesfile.Node) error {
		o := overrideDraft{node: n}
		err := n.Fields("an override",
			rulesfile.Into("match", &o.match, c.match),
			rulesfile.Into("limit", &o.limit, func(n *rulesfile.Node) (*limits, error) {
				l, err := limitsOf(n)
				return &l, err
			}),
			rulesfile.Into("windows", &o.windows, windowsOf),
		)
		switch {
		case err != nil:
			return err
		case o.match == nil || (o.limit == nil) == (o.windows == nil):
			return n.Wrong("an override should have match and either limit or windows, such as {match: {user: {list: office}}, limit: unlimited}")
		case len(drafts) == maxOverrides:
			return n.Wrong("the rule has more than %d overrides", maxOverrides)
		}
		drafts = append(drafts, o)
		return nil
	})
	return drafts, err
}

// finishOverrides sorts the limits of the overrides into the order of the rule's windows.
func (d *draft) finishOverrides() error {
	for _, o := range d.overridden {
		done := override{match: o.match, limits: make([]limits, len(d.several))}
		switch all := o.limit; {
		case all == nil:
			if len(o.windows) != len(d.several) {
				return o.node.Wrong("the override has %d windows, it should have the %d of the rule", len(o.windows), len(d.several))
			}
			for i := range d.several {
				at := slices.IndexFunc(o.windows, func(w windowDraft) bool {
					return sameSpan(w.Window, d.several[i].Window) && (w.Algorithm == "" || w.Algorithm == d.several[i].Algorithm)
				})
				if at < 0 {
					return o.node.Wrong("the override has no window of %v, it should have the windows of the rule", d.several[i].Window)
				}
				w := &o.windows[at]
				if w.Burst > 0 || w.Base != nil {
					return cmp.Or(w.node.Key("burst"), w.node.Key("base")).Wrong("an override has no burst and no base, the rule's hold")
				}
				done.limits[i] = w.limit
			}
		case len(d.several) > 1 && (all.tiers != nil || all.other > 0):
			return o.node.Wrong("rule %q has %d windows: the override should have windows as well, or limit: 0 or unlimited", d.Name, len(d.several))
		default:
			for i := range done.limits {
				done.limits[i] = *all
			}
		}
		d.rule.overrides = append(d.rule.overrides, done)
	}
	return nil
}
