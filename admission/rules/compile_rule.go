package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// A draft is a rule whose values are read and not yet checked against each other.
type draft struct {
	rule
	node       *rulesfile.Node
	algorithm  store.Algorithm
	zone       *time.Location
	single     windowDraft // of limit, window, burst and base
	several    []windowDraft
	overridden []overrideDraft
}

func (c *compiler) rule(n *rulesfile.Node) (rule, error) {
	d := &draft{node: n, zone: time.UTC, single: windowDraft{node: n}}
	d.line, d.cost = n.Line(), 1
	err := n.Fields("a rule",
		rulesfile.Into("name", &d.Name, func(n *rulesfile.Node) (string,
			error,
		) {
			return n.Word("name", ruleName, names.Length+" of a-z 0-9 -")
		}),
		rulesfile.Into("match", &d.match, c.match),
		rulesfile.Into("subject", &d.subject, subjectOf("subject")),
		rulesfile.Into("joint", &d.joint, subjectOf("joint")),
		rulesfile.Word("algorithm", &d.algorithm, append(slices.Clone(store.Algorithms), Direct)...),
		rulesfile.Word("action", &d.Direct, Allow, Deny, Challenge),
		rulesfile.Into("limit", &d.single.limit, limitsOf),
		rulesfile.Into("window", &d.single.Window, spanOf),
		rulesfile.Into("windows", &d.several, windowsOf),
		rulesfile.Number("burst", &d.single.Burst, 1, store.MaxLimit),
		rulesfile.Into("base", &d.single.Base, baseOf),
		rulesfile.Into("zone", &d.zone, zoneOf),
		rulesfile.Into("overrides", &d.overridden, c.overrides),
		rulesfile.Key("cost", func(_, n *rulesfile.Node) error { return d.readCost(n) }),
		rulesfile.Bool("count_rejected", &d.CountRejected),
		rulesfile.Into("on_exceed", &d.OnExceed, exceedOf),
		rulesfile.Word("on_store_error", &d.OnStoreError, FailOpen, FailClosed, FailLocal),
		rulesfile.Bool("shadow", &d.Shadow),
		rulesfile.Into("public", &d.Public, publicOf),
	)
	switch {
	case err != nil:
	case d.Name == "":
		err = n.Wrong(`the rule has no name, it should have "name", ` + names.Length + ` of a-z 0-9 -`)
	case d.algorithm == Direct:
		err = d.finishDirect()
	default:
		err = d.finishCounting()
	}
	if d.Public == sameName {
		d.Public = d.Name
	}
	return d.rule, err
}

// has reports whether the rule has this key.
func (d *draft) has(key string) bool { return d.node.Key(key) != nil }

func (d *draft) readCost(n *rulesfile.Node) (err error) {
	if !n.IsText() {
		d.cost, err = n.Number("cost", 1, MaxCost)
		return err
	}
	d.costFrom, err = n.Word("cost", attributeName, "a number or the name of a numeric attribute (A-Z a-z 0-9 _ . -)")
	if err == nil && !isAttribute(d.costFrom) {
		err = n.Wrong("cost should be a number or the name of a numeric attribute, and %s is a part of every request", d.costFrom)
	}
	return err
}

// sameName stands for the name of the rule itself. No rule has this name.
const sameName = "="

// publicOf reads a name for callers.
func publicOf(n *rulesfile.Node) (string, error) {
	if !n.IsBool() {
		return n.Word("public", ruleName, "true, false or a name for callers, "+names.Length+" of a-z 0-9 -")
	}
	if is, err := n.Bool("public"); err != nil || !is {
		return "", err
	}
	return sameName, nil
}

// finishDirect checks a rule without limits.
func (d *draft) finishDirect() error {
	if !d.has("action") {
		return d.node.Wrong("rule %q is direct and has no action, it should be allow, deny or challenge", d.Name)
	}
	for _, key := range d.node.Keys() {
		if !slices.Contains([]string{"name", "match", "algorithm", "action", "shadow", "public"}, key.Name()) {
			return key.Wrong("rule %q is direct, it counts nothing and has no %s", d.Name, key.Name())
		}
	}
	return nil
}

// finishCounting checks a rule with limits, and completes its windows.
func (d *draft) finishCounting() error {
	const right = `either "limit" and "window", or "windows"`
	several := d.has("windows")
	switch {
	case d.has("action"):
		return d.node.Key("action").Wrong("action is for algorithm: direct; what follows from too many requests stands in on_exceed")
	case d.subject == nil:
		return d.node.Wrong(`rule %q has no subject, it should say whom it counts, such as "subject: [caller]"`, d.Name)
	case !several && (!d.has("limit") || !d.has("window")):
		return d.node.Wrong("rule %q is not complete, it should have "+right, d.Name)
	}
	for _, part := range d.joint {
		if !slices.Contains(d.subject, part) {
			return d.node.Key("joint").Wrong("joint has %q, which is no part of the subject %s", part, strings.Join(d.subject, ", "))
		}
	}
	for _, key := range []string{"limit", "window", "burst", "base"} {
		if several && d.has(key) {
			return d.node.Key(key).Wrong("rule %q has %s and windows, it should have "+right, d.Name, key)
		}
	}
	if !several {
		d.several = []windowDraft{d.single}
	}
	if d.OnExceed.Action == Ban && len(d.joint) > 0 {
		return d.node.Key("on_exceed").Wrong("rule %q bans and counts several subjects together: leave out joint or ban", d.Name)
	}
	if d.OnExceed.Action == Ban && !bannable(d.subject) {
		return d.node.Key("on_exceed").Wrong("rule %q bans and counts %s: its subject should be one of user, ip, network, caller, device",
			d.Name, strings.Join(d.subject, ", "))
	}
	if err := d.finishOverrides(); err != nil {
		return err
	}
	zoned := false
	for i := range d.several {
		w := &d.several[i]
		if err := d.finishWindow(i, w); err != nil {
			return err
		}
		if slices.ContainsFunc(d.windows, func(o Counter) bool { return o.ID == w.ID }) {
			return w.node.Wrong("another window has the same length; keep only the one with the lower limit")
		}
		zoned = zoned || w.Window.Calendar != nil || w.Base != nil && w.Base.Window.Calendar != nil
		d.windows = append(d.windows, w.Counter)
	}
	if d.has("zone") && !zoned {
		return d.node.Key("zone").Wrong("zone is for windows of the calendar: minute, hour, day or month")
	}
	return nil
}

// bannable reports whether a ban can exclude this kind of subject.
func bannable(subject []string) bool {
	return len(subject) == 1 && slices.Contains([]string{"user", "ip", "network", "caller", "device"}, subject[0])
}

// subjectOf returns the function that reads the parts of a subject.
func subjectOf(what string) func(*rulesfile.Node) ([]string, error) {
	return func(n *rulesfile.Node) (parts []string, err error) {
		err = n.OneOrMore(what, func(n *rulesfile.Node) error {
			part, err := n.Word("a part of "+what, attributeName,
				"user, ip, network, caller, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)")
			switch {
			case err != nil:
				return err
			case !isAttribute(part) && strings.ToLower(part) != part:
				return n.Wrong("%s has %q, it should be written %s", what, part, strings.ToLower(part))
			case part == "route" || part == "method" || part == "tier":
				return n.Wrong("%s has %q, which describes the request and not its sender; it should stand in match", what, part)
			case slices.Contains(parts, part):
				return n.Wrong("%s has %q twice", what, part)
			case len(parts) == 8:
				return n.Wrong("%s has more than 8 parts", what)
			}
			parts = append(parts, part)
			return nil
		})
		return parts, err
	}
}
