package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
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
	keep := func(key string, read func(ast.Node) error) field {
		return field{key, func(at, n ast.Node) error {
			d.keys, d.at[key] = append(d.keys, key), at
			return read(n)
		}}
	}
	err := s.mapping(n, "a rule",
		keep("name", func(n ast.Node) (err error) {
			d.name, err = s.word(n, "name", ruleName, "1 to 64 of a-z 0-9 -")
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
			d.algorithm, err = s.oneOf(n, "algorithm", append(slices.Clone(countingAlgorithms), string(Direct))...)
			return err
		}),
		keep("action", func(n ast.Node) error {
			action, err := s.oneOf(n, "action", string(ActionAllow), string(ActionDeny), string(ActionChallenge))
			d.direct = Action(action)
			return err
		}),
		keep("limit", func(n ast.Node) (err error) {
			d.single.limit, err = s.limits(n)
			return err
		}),
		keep("window", func(n ast.Node) (err error) {
			d.single.span, err = s.span(n)
			return err
		}),
		keep("windows", func(n ast.Node) (err error) {
			d.several, err = s.windows(n)
			return err
		}),
		keep("burst", func(n ast.Node) (err error) {
			d.single.burst, err = s.number(n, "burst", 1, MaxLimit)
			return err
		}),
		keep("base", func(n ast.Node) (err error) {
			d.single.base, err = s.base(n)
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
				d.costFrom, err = s.word(n, "cost", attributeName, "a number or the name of a numeric attribute (A-Z a-z 0-9 _ . -)")
				if err == nil && !isAttribute(d.costFrom) {
					err = s.wrong(n, "cost should be a number or the name of a numeric attribute, and %s is a part of every request", d.costFrom)
				}
				return err
			}
			d.cost, err = s.number(n, "cost", 1, MaxCost)
			return err
		}),
		keep("count_rejected", func(n ast.Node) (err error) {
			d.countRejected, err = s.boolean(n, "count_rejected")
			return err
		}),
		keep("on_exceed", func(n ast.Node) (err error) {
			d.onExceed, err = s.exceed(n)
			return err
		}),
		keep("on_store_error", func(n ast.Node) error {
			word, err := s.oneOf(n, "on_store_error", "open", "closed", "local")
			d.onStoreError = map[string]fallback{"open": failOpen, "closed": failClosed, "local": failLocal}[word]
			return err
		}),
		keep("shadow", func(n ast.Node) (err error) {
			d.shadow, err = s.boolean(n, "shadow")
			return err
		}),
		keep("public", func(n ast.Node) (err error) {
			if _, ok := n.(*ast.BoolNode); ok {
				public, err = s.boolean(n, "public")
				return err
			}
			d.public, err = s.word(n, "public", ruleName, "true, false or a name for callers, 1 to 64 of a-z 0-9 -")
			return err
		}),
	)
	switch {
	case err != nil:
	case d.name == "":
		err = s.wrong(n, `the rule has no name, it should have "name", 1 to 64 of a-z 0-9 -`)
	case d.algorithm == string(Direct):
		err = s.finishDirect(d)
	default:
		err = s.finishCounting(d)
	}
	d.line = line(n)
	if public {
		d.public = d.name
	}
	return d.rule, err
}

// finishDirect checks a rule without limits.
func (s *source) finishDirect(d *draft) error {
	if d.at["action"] == nil {
		return s.wrong(d.node, "rule %q is direct and has no action, it should be allow, deny or challenge", d.name)
	}
	for _, key := range d.keys {
		if !slices.Contains([]string{"name", "match", "algorithm", "action", "shadow", "public"}, key) {
			return s.wrong(d.at[key], "rule %q is direct, it counts nothing and has no %s", d.name, key)
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
		return s.wrong(d.at["action"], "action is for algorithm: direct; what follows from too many requests stands in on_exceed")
	case d.subject == nil:
		return s.wrong(d.node, `rule %q has no subject, it should say whom it counts, such as "subject: [caller]"`, d.name)
	case !several && (d.at["limit"] == nil || d.at["window"] == nil):
		return s.wrong(d.node, "rule %q is not complete, it should have "+right, d.name)
	}
	for _, part := range d.joint {
		if !slices.Contains(d.subject, part) {
			return s.wrong(d.at["joint"], "joint has %q, which is no part of the subject %s", part, strings.Join(d.subject, ", "))
		}
	}
	for _, key := range []string{"limit", "window", "burst", "base"} {
		if several && d.at[key] != nil {
			return s.wrong(d.at[key], "rule %q has %s and windows, it should have "+right, d.name, key)
		}
	}
	if !several {
		d.single.node = d.node
		d.several = []windowDraft{d.single}
	}
	if d.onExceed.action == ActionBan && len(d.joint) > 0 {
		return s.wrong(d.at["on_exceed"], "rule %q bans and counts several subjects together: leave out joint, or ban nobody", d.name)
	}
	if d.onExceed.action == ActionBan && !bannable(d.subject) {
		return s.wrong(d.at["on_exceed"], "rule %q bans and counts %s: its subject should be one of user, ip, network, caller, device", d.name, strings.Join(d.subject, ", "))
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
		if slices.ContainsFunc(d.windows, func(o window) bool { return o.id == w.id }) {
			return s.wrong(w.node, "a second window is as long, the lower limit alone says the same")
		}
		zoned = zoned || w.span.Calendar != nil || w.base != nil && w.base.span.Calendar != nil
		d.windows = append(d.windows, w.window)
	}
	if d.at["zone"] != nil && !zoned {
		return s.wrong(d.at["zone"], "zone is for windows of the calendar: minute, hour, day or month")
	}
	return nil
}

// bannable reports whether a ban can exclude this kind of subject.
func bannable(subject []string) bool {
	return len(subject) == 1 && slices.Contains([]string{"user", "ip", "network", "caller", "device"}, subject[0])
}

func (s *source) subject(n ast.Node, what string) (parts []string, err error) {
	err = s.oneOrMore(n, what, func(n ast.Node) error {
		part, err := s.word(n, "a part of "+what, attributeName,
			"user, ip, network, caller, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)")
		switch {
		case err != nil:
			return err
		case !isAttribute(part) && strings.ToLower(part) != part:
			return s.wrong(n, "%s has %q, it should be written %s", what, part, strings.ToLower(part))
		case part == "route" || part == "method" || part == "tier":
			return s.wrong(n, "%s has %q, which says what a request is about and not whose it is; it should stand in match", what, part)
		case slices.Contains(parts, part):
			return s.wrong(n, "%s has %q twice", what, part)
		case len(parts) == 8:
			return s.wrong(n, "%s has more than 8 parts", what)
		}
		parts = append(parts, part)
		return nil
	})
	return parts, err
}

// exceed parses the action on excess.
func (s *source) exceed(n ast.Node) (e exceed, err error) {
	words := []string{string(ActionDeny), string(ActionChallenge), string(ActionBan)}
	at := map[string]ast.Node{}
	var first string // first key that applies to bans only
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		keep := func(key string, read func(ast.Node) error) field {
			return field{key, func(k, n ast.Node) error {
				at[key], first = k, cmp.Or(first, key)
				return read(n)
			}}
		}
		length := func(key string, to *time.Duration) field {
			return keep(key, func(n ast.Node) (err error) {
				*to, err = s.duration(n, key)
				return err
			})
		}
		err = s.mapping(n, "on_exceed",
			field{"action", func(_, n ast.Node) error {
				word, err := s.oneOf(n, "action", words...)
				e.action = Action(word)
				return err
			}},
			keep("after", func(n ast.Node) (err error) {
				e.after, err = s.number(n, "after", 1, 1000)
				return err
			}),
			length("within", &e.within), length("for", &e.length), length("at_most", &e.atMost),
			keep("growing", func(n ast.Node) (err error) {
				e.growing, err = s.boolean(n, "growing")
				return err
			}),
		)
		if err == nil && e.action == "" {
			err = s.wrong(n, "on_exceed has no action, it should be deny, challenge or ban")
		}
	default:
		var word string
		word, err = s.oneOf(n, "on_exceed", words...)
		e.action = Action(word)
	}
	if err != nil {
		return exceed{}, err
	}
	switch {
	case e.action == ActionBan:
	case first != "":
		return exceed{}, s.wrong(at[first], "on_exceed has %s, which is for action: ban", first)
	default:
		return e, nil
	}
	if e.after == 0 {
		e.after = 1
	}
	if e.within == 0 {
		e.within = time.Minute
	}
	if e.length == 0 {
		e.length = 10 * time.Minute
	}
	if e.atMost == 0 {
		e.atMost = max(24*time.Hour, e.length)
	}
	if at["at_most"] != nil && !e.growing {
		return exceed{}, s.wrong(at["at_most"], "on_exceed has at_most, which is for growing: true")
	}
	if e.atMost < e.length {
		return exceed{}, s.wrong(at["at_most"], "at_most is %v, it should not be less than the %v of the first ban", e.atMost, e.length)
	}
	return e, nil
}
