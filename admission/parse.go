package admission

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

const (
	maxRules   = 1000
	maxWindows = 8
)

var (
	ruleNames      = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	tierNames      = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	attributeNames = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	methodNames    = regexp.MustCompile(`^[A-Z]{1,32}$`)
)

// ParseRules reads the rules file src; name is what errors call it. Everything it does not know is an error, which wraps a
// *RulesError with line and column.
func ParseRules(name string, src []byte) (*Rules, error) {
	rules, err := source{file: name}.rules(src)
	if err != nil {
		return nil, fmt.Errorf("admission: parse rules: %w", err)
	}
	return newRules(rules, src), nil
}

func (s source) rules(src []byte) ([]rule, error) {
	root, err := s.root(src)
	if err != nil {
		return nil, err
	}
	var (
		rules   []rule
		version bool
		named   = map[string]bool{}
	)
	err = s.mapping(root, "a rules file",
		field{"version", func(_, n ast.Node) error {
			_, err := s.number(n, "version", 1, 1)
			version = true
			return err
		}},
		field{"rules", func(_, n ast.Node) error {
			return s.list(n, "rules", func(n ast.Node) error {
				r, err := s.rule(n)
				switch {
				case err != nil:
					return err
				case named[r.name]:
					return s.wrong(n, "a second rule is called %q, names should be unique", r.name)
				case len(rules) == maxRules:
					return s.wrong(n, "there are more than %d rules", maxRules)
				}
				named[r.name] = true
				rules = append(rules, r)
				return nil
			})
		}},
	)
	switch {
	case err != nil:
		return nil, err
	case !version:
		return nil, s.wrong(root, `the key "version" is missing, it should be "version: 1"`)
	case len(rules) == 0:
		return nil, s.wrong(root, `the key "rules" is missing, it should be a list of rules`)
	}
	return rules, nil
}

func (s source) rule(n ast.Node) (rule, error) {
	r := rule{cost: 1}
	var limit, length, several ast.Node // the keys limit, window and windows
	var single window
	err := s.mapping(n, "a rule",
		field{"name", func(_, n ast.Node) (err error) {
			r.name, err = s.word(n, "name", ruleNames, "1 to 64 of a-z 0-9 -")
			return err
		}},
		field{"match", func(_, n ast.Node) (err error) {
			r.match, err = s.match(n)
			return err
		}},
		field{"subject", func(_, n ast.Node) (err error) {
			r.subject, err = s.subject(n)
			return err
		}},
		field{"limit", func(key, n ast.Node) (err error) {
			limit = key
			single.limit, err = s.limits(n)
			return err
		}},
		field{"window", func(key, n ast.Node) (err error) {
			length = key
			single.span.Length, err = s.duration(n)
			return err
		}},
		field{"windows", func(key, n ast.Node) (err error) {
			several = key
			r.windows, err = s.windows(n)
			return err
		}},
		field{"cost", func(_, n ast.Node) (err error) {
			r.cost, err = s.number(n, "cost", 1, MaxCost)
			return err
		}},
		field{"algorithm", func(_, n ast.Node) error {
			return s.oneOf(n, "algorithm", "sliding_log")
		}},
		field{"on_store_error", func(_, n ast.Node) error {
			if err := s.oneOf(n, "on_store_error", "open", "closed"); err != nil {
				return err
			}
			if n.(*ast.StringNode).Value == "closed" {
				r.onStoreError = failClosed
			}
			return nil
		}},
		field{"shadow", func(_, n ast.Node) (err error) {
			r.shadow, err = s.boolean(n, "shadow")
			return err
		}},
	)
	const right = `either "limit" and "window", or "windows"`
	switch {
	case err != nil:
		return rule{}, err
	case r.name == "":
		return rule{}, s.wrong(n, `the rule has no name, it should have "name", 1 to 64 of a-z 0-9 -`)
	case r.subject == nil:
		return rule{}, s.wrong(n, `rule %q has no subject, it should say whom it counts, such as "subject: [caller]"`, r.name)
	case several != nil && limit != nil:
		return rule{}, s.wrong(limit, "rule %q has limit and windows, it should have "+right, r.name)
	case several != nil && length != nil:
		return rule{}, s.wrong(length, "rule %q has window and windows, it should have "+right, r.name)
	case several == nil && (limit == nil || length == nil):
		return rule{}, s.wrong(n, "rule %q is not complete, it should have "+right, r.name)
	case several == nil:
		r.windows = []window{single}
	}
	for i := range r.windows {
		w := &r.windows[i]
		w.algorithm = SlidingLog
		w.id = windowID(append([]string{r.name, string(w.algorithm), w.span.Length.String()}, r.subject...)...)
	}
	return r, nil
}

func (s source) windows(n ast.Node) (windows []window, err error) {
	err = s.list(n, "windows", func(n ast.Node) error {
		var w window
		var limit bool
		err := s.mapping(n, "a window",
			field{"limit", func(_, n ast.Node) (err error) {
				limit = true
				w.limit, err = s.limits(n)
				return err
			}},
			field{"window", func(_, n ast.Node) (err error) {
				w.span.Length, err = s.duration(n)
				return err
			}},
		)
		switch {
		case err != nil:
			return err
		case !limit || w.span.Length == 0:
			return s.wrong(n, "the window is not complete, it should be such as {limit: 5, window: 10s}")
		case slices.ContainsFunc(windows, func(o window) bool { return o.span == w.span }):
			return s.wrong(n, "a second window is %v long, the lower limit alone says the same", w.span.Length)
		case len(windows) == maxWindows:
			return s.wrong(n, "the rule has more than %d windows", maxWindows)
		}
		windows = append(windows, w)
		return nil
	})
	return windows, err
}
