package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// A draft is a partly parsed rule, with the positions of its keys.
type draft struct {
	rule
	node       ast.Node
	keys       []string            // in the order of the file
	at         map[string]ast.Node // node of each key
	algorithm  string
	zone       *time.Location
	single     windowDraft // of limit, window, burst and base
	several    []windowDraft
	overridden []overrideDraft
}

func (s *source) rule(n ast.Node) (rule, error) {
	d := &draft{node: n, at: map[string]ast.Node{}, zone: time.UTC}
	d.cost = 1
	public := false
	keep := func(key string, read func(ast.Node) error) rulesfile.Field {
		return rulesfile.Key(key, func(at, n ast.Node) error {
			d.keys, d.at[key] = append(d.keys, key), at
			return read(n)
		})
	}
	err := s.Mapping(n, "a rule",
		keep("name", func(n ast.Node) (err error) {
			d.Name, err = s.Word(n, "name", ruleName, "1 to 64 of a-z 0-9 -")
			return err
		}),
		keep("match", func(n ast.Node) (err error) {
			d.match, err = s.match(n)
			return err
		}),
		keep("subject", func(n ast.Node) (err error) {
			d.subject, err = s.subject(n, "subject")
			return err
		}),
		keep("joint", func(n ast.Node) (err error) {
			d.joint, err = s.subject(n, "joint")
			return err
		}),
		keep("algorithm", func(n ast.Node) (err error) {
			d.algorithm, err = s.OneOf(n, "algorithm", append(slices.Clone(countingAlgorithms), string(Direct))...)
			return err
		}),
		keep("action", func(n ast.Node) error {
			action, err := s.OneOf(n, "action", string(Allow), string(Deny), string(Challenge))
			d.Direct = Action(action)
			return err
		}),
		keep("limit", func(n ast.Node) (err error) {
			d.single.limit, err = s.limits(n)
			return err
		}),
		keep("window", func(n ast.Node) (err error) {
			d.single.Window, err = s.span(n)
			return err
		}),
		keep("windows", func(n ast.Node) (err error) {
			d.several, err = s.windows(n)
			return err
		}),
		keep("burst", func(n ast.Node) (err error) {
			d.single.Burst, err = s.Number(n, "burst", 1, store.MaxLimit)
			return err
		}),
		keep("base", func(n ast.Node) (err error) {
			d.single.Base, err = s.base(n)
			return err
		}),
		keep("zone", func(n ast.Node) (err error) {
			d.zone, err = s.zone(n)
			return err
		}),
		keep("overrides", func(n ast.Node) (err error) {
			d.overridden, err = s.overrides(n)
			return err
		}),
		keep("cost", func(n ast.Node) (err error) {
			if _, ok := n.(*ast.StringNode); ok {
				d.costFrom, err = s.Word(n, "cost", attributeName, "a number or the name of a numeric attribute (A-Z a-z 0-9 _ . -)")
				if err == nil && !isAttribute(d.costFrom) {
					err = s.Wrong(n, "cost should be a number or the name of a numeric attribute, and %s is a part of every request", d.costFrom)
				}
				return err
			}
			d.cost, err = s.Number(n, "cost", 1, MaxCost)
			return err
		}),
		keep("count_rejected", func(n ast.Node) (err error) {
			d.CountRejected, err = s.Bool(n, "count_rejected")
			return err
		}),
		keep("on_exceed", func(n ast.Node) (err error) {
			d.OnExceed, err = s.exceed(n)
			return err
		}),
		keep("on_store_error", func(n ast.Node) error {
			word, err := s.OneOf(n, "on_store_error", string(FailOpen), string(FailClosed), string(FailLocal))
			d.OnStoreError = Fallback(word)
			return err
		}),
		keep("shadow", func(n ast.Node) (err error) {
			d.Shadow, err = s.Bool(n, "shadow")
			return err
		}),
		keep("public", func(n ast.Node) (err error) {
			if _, ok := n.(*ast.BoolNode); ok {
				public, err = s.Bool(n, "public")
				return err
			}
			d.Public, err = s.Word(n, "public", ruleName, "true, false or a name for callers, 1 to 64 of a-z 0-9 -")
			return err
		}),
	)
	switch {
	case err != nil:
	case d.Name == "":
		err = s.Wrong(n, `the rule has no name, it should have "name", 1 to 64 of a-z 0-9 -`)
	case d.algorithm == string(Direct):
		err = s.finishDirect(d)
	default:
		err = s.finishCounting(d)
	}
	d.line = rulesfile.Line(n)
	if public {
		d.Public = d.Name
	}
	return d.rule, err
}

// finishDirect checks a rule without limits.
func (s *source) finishDirect(d *draft) error {
	if d.at["action"] == nil {
		return s.Wrong(d.node, "rule %q is direct and has no action, it should be allow, deny or challenge", d.Name)
	}
	for _, key := range d.keys {
		if !slices.Contains([]string{"name", "match", "algorithm", "action", "shadow", "public"}, key) {
			return s.Wrong(d.at[key], "rule %q is direct, it counts nothing and has no %s", d.Name, key)
		}
	}
	return nil
}

// finishCounting checks a rule with limits, and completes its windows.
func (s *source) finishCounting(d *draft) error {
	const right = `either "limit" and "window", or "windows"`
	several := d.at["windows"] != nil
	switch {
	case d.at["action"] != nil:
		return s.Wrong(d.at["action"], "action is for algorithm: direct; what follows from too many requests stands in on_exceed")
	case d.subject == nil:
		return s.Wrong(d.node, `rule %q has no subject, it should say whom it counts, such as "subject: [caller]"`, d.Name)
	case !several && (d.at["limit"] == nil || d.at["window"] == nil):
		return s.Wrong(d.node, "rule %q is not complete, it should have "+right, d.Name)
	}
	for _, part := range d.joint {
		if !slices.Contains(d.subject, part) {
			return s.Wrong(d.at["joint"], "joint has %q, which is no part of the subject %s", part, strings.Join(d.subject, ", "))
		}
	}
	for _, key := range []string{"limit", "window", "burst", "base"} {
		if several && d.at[key] != nil {
			return s.Wrong(d.at[key], "rule %q has %s and windows, it should have "+right, d.Name, key)
		}
	}
	if !several {
		d.single.node = d.node
		d.several = []windowDraft{d.single}
	}
	if d.OnExceed.Action == Ban && len(d.joint) > 0 {
		return s.Wrong(d.at["on_exceed"], "rule %q bans and counts several subjects together: leave out joint, or ban nobody", d.Name)
	}
	if d.OnExceed.Action == Ban && !bannable(d.subject) {
		return s.Wrong(d.at["on_exceed"], "rule %q bans and counts %s: its subject should be one of user, ip, network, caller, device", d.Name, strings.Join(d.subject, ", "))
	}
	if err := s.finishOverrides(d); err != nil {
		return err
	}
	zoned := false
	for i := range d.several {
		w := &d.several[i]
		if err := s.finishWindow(d, i, w); err != nil {
			return err
		}
		if slices.ContainsFunc(d.windows, func(o Counter) bool { return o.ID == w.ID }) {
			return s.Wrong(w.node, "a second window is as long, the lower limit alone says the same")
		}
		zoned = zoned || w.Window.Calendar != nil || w.Base != nil && w.Base.Window.Calendar != nil
		d.windows = append(d.windows, w.Counter)
	}
	if d.at["zone"] != nil && !zoned {
		return s.Wrong(d.at["zone"], "zone is for windows of the calendar: minute, hour, day or month")
	}
	return nil
}

// bannable reports whether a ban can exclude this kind of subject.
func bannable(subject []string) bool {
	return len(subject) == 1 && slices.Contains([]string{"user", "ip", "network", "caller", "device"}, subject[0])
}

func (s *source) subject(n ast.Node, what string) (parts []string, err error) {
	err = s.OneOrMore(n, what, func(n ast.Node) error {
		part, err := s.Word(n, "a part of "+what, attributeName,
			"user, ip, network, caller, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)")
		switch {
		case err != nil:
			return err
		case !isAttribute(part) && strings.ToLower(part) != part:
			return s.Wrong(n, "%s has %q, it should be written %s", what, part, strings.ToLower(part))
		case part == "route" || part == "method" || part == "tier":
			return s.Wrong(n, "%s has %q, which says what a request is about and not whose it is; it should stand in match", what, part)
		case slices.Contains(parts, part):
			return s.Wrong(n, "%s has %q twice", what, part)
		case len(parts) == 8:
			return s.Wrong(n, "%s has more than 8 parts", what)
		}
		parts = append(parts, part)
		return nil
	})
	return parts, err
}
