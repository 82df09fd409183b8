package koala

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

// translate returns the rules that f becomes. Their Source has everything of f in its order; settings without an equivalent are comments.
func (f *file) translate(zone string) (*rules.Set, error) {
	at := f.lines[0].whole().tree()
	text := "# Made of " + filepath.Base(f.path) + ". Files of lists are looked for beside this file.\nversion: 1\nanswer: first\n"
	var lists []rulesfile.Pair
	var all []*rulesfile.Node
	section := ""
	for _, l := range f.lines {
		p := l.whole()
		comment := strings.ReplaceAll(p.text, "\v", " ") // whitespace for Koala, but not for YAML
		switch {
		case p.text == "":
		case f.sectionAt[l] != "":
			section = f.sectionAt[l]
			text += f.heading(section)
		case f.dictAt[l].name != "":
			d := f.dictAt[l]
			one := p.tree().Pair(d.name, p.under("file", p.tree().Text(f.relative(d.path))))
			lists = append(lists, one)
			text += "  " + one.Key.Flow() + ": " + one.Value.Flow()
		case f.ruleAt[l] != nil:
			one := f.rule(f.ruleAt[l], p.tree(), zone)
			all = append(all, one)
			text += "  # " + comment + "\n" + strings.TrimSuffix(one.Block("  "), "\n")
		case !l.empty(): // a result
			text += "# " + comment
		case section == "[dicts]" || section == "[rules]":
			text += "  " + comment
		default:
			text += comment
		}
		text += "\n"
	}
	if len(text) > rulesfile.MaxSize {
		return nil, fmt.Errorf("%s: of the rules file that is made of it: the file has %d bytes, at most %d are read", f.path, len(text),
			rulesfile.MaxSize)
	}
	root := at.Mapping(at.Pair("version", at.Int(1)), at.Pair("answer", at.Text("first")), at.Pair("lists", at.Mapping(lists...)),
		at.Pair("rules", at.List(all...)))
	return rules.Compile(f.path, root, []byte(text))
}

func (f *file) heading(section string) string {
	switch {
	case section == "[dicts]" && len(f.dicts) > 0:
		return "lists:"
	case section == "[rules]":
		return "rules:"
	}
	return "# " + section
}

// rule returns the rule that r becomes.
func (f *file) rule(r *rule, at rulesfile.At, zone string) *rulesfile.Node {
	pairs := []rulesfile.Pair{at.Pair("name", at.Text(r.name())), at.Pair("match", r.match(at))}
	add := func(key string, value *rulesfile.Node) { pairs = append(pairs, at.Pair(key, value)) }
	action := f.results[r.result].action()
	if r.method == "direct" {
		add("algorithm", at.Text(string(rules.Direct)))
		add("action", at.Text(string(action)))
		return at.Mapping(pairs...)
	}
	subject, joint := r.subject()
	add("subject", at.Texts(subject...))
	if len(joint) > 0 {
		add("joint", at.Texts(joint...))
	}
	add("algorithm", at.Text(string(map[string]store.Algorithm{
		"count": store.FixedWindow, "base": store.TwoStage,
		"leak": store.SlidingLog,
	}[r.method])))
	if r.method == "base" {
		add("base", at.Mapping(at.Pair("limit", at.Int(int64(r.base))), at.Pair("window", at.Text("day"))))
	}
	add("limit", at.Int(int64(r.count)))
	add("window", at.Text(r.window()))
	if r.method == "base" || r.daily() {
		add("zone", at.Text(zone))
	}
	if action != rules.Deny {
		add("on_exceed", at.Text(string(action)))
	}
	add("on_store_error", at.Text(string(rules.FailLocal)))
	return at.Mapping(pairs...)
}

// action returns the action of r in a rules file.
func (r Result) action() rules.Action {
	switch {
	case r.admits():
		return rules.Allow
	case r.NeedVcode != 0:
		return rules.Challenge
	}
	return rules.Deny
}

// match returns all conditions; several on one parameter are combined.
func (r *rule) match(at rulesfile.At) *rulesfile.Node {
	var parts []string
	tests := map[string][]*rulesfile.Node{}
	for _, c := range r.conditions {
		part := partOf(c.parameter)
		if tests[part] == nil {
			parts = append(parts, part)
		}
		tests[part] = append(tests[part], c.test)
	}
	pairs := make([]rulesfile.Pair, len(parts))
	for i, part := range parts {
		test := tests[part][0]
		if len(tests[part]) > 1 {
			test = at.Mapping(at.Pair("all", at.List(tests[part]...)))
		}
		pairs[i] = at.Pair(part, test)
	}
	return at.Mapping(pairs...)
}

// subject returns the subject: the parameters whose values are counted, and those of them whose values share one count.
func (r *rule) subject() (subject, joint []string) {
	for _, c := range r.conditions {
		name := partOf(c.parameter)
		if !slices.Contains(subject, name) {
			subject = append(subject, name)
		}
		if c.joint && !slices.Contains(joint, name) {
			joint = append(joint, name)
		}
	}
	slices.Sort(subject)
	return subject, joint
}

// relative returns path relative to the directory of the rule file.
func (f *file) relative(path string) string {
	if filepath.IsAbs(path) && !filepath.IsAbs(f.path) {
		return path
	}
	short, err := filepath.Rel(filepath.Dir(f.path), path)
	if err != nil {
		return path
	}
	return short
}
