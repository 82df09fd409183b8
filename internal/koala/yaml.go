package koala

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A writer generates the rules file, and records the source line of each of its lines.
type writer struct {
	text strings.Builder
	of   []*line // by line, from 0
}

func (w *writer) line(of *line, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.text.WriteString(strings.ReplaceAll(text, "\v", " ") + "\n") // whitespace for Koala, but not for YAML
	w.of = append(w.of, of)
}

// yaml returns the rules file for f. It contains everything of f; settings without an equivalent become comments.
func (f *file) yaml(zone string) *writer {
	w := &writer{}
	first := f.lines[0]
	w.line(first, "# Made of %s. Files of lists are looked for beside this file.", filepath.Base(f.path))
	w.line(first, "version: 1")
	w.line(first, "answer: first")
	section := ""
	for _, l := range f.lines {
		text := l.whole().text
		indent := ""
		if section == "[dicts]" || section == "[rules]" {
			indent = "  "
		}
		switch {
		case text == "":
			w.line(l, "")
		case f.sectionAt[l] != "":
			section = f.sectionAt[l]
			f.heading(w, l, section)
		case f.dictAt[l].name != "":
			d := f.dictAt[l]
			w.line(l, "  %s: {file: %s}", scalar(d.name), scalar(f.relative(d.path)))
		case f.ruleAt[l] != nil:
			f.rule(w, l, zone)
		case !l.empty(): // a result
			w.line(l, "# %s", text)
		default:
			w.line(l, "%s%s", indent, text)
		}
	}
	return w
}

func (f *file) heading(w *writer, l *line, section string) {
	switch {
	case section == "[dicts]" && len(f.dicts) > 0:
		w.line(l, "lists:")
	case section == "[rules]":
		w.line(l, "rules:")
	default:
		w.line(l, "# %s", section)
	}
}

// rule writes one rule, below its source line as a comment.
func (f *file) rule(w *writer, l *line, zone string) {
	r := f.ruleAt[l]
	w.line(l, "  # %s", r.at.text)
	w.line(l, "  - name: %s", r.name())
	w.line(l, "    match: {%s}", r.match())
	if r.method == "direct" {
		w.line(l, "    algorithm: direct")
		w.line(l, "    action: %s", f.results[r.result].action())
		return
	}
	subject, joint := r.subject()
	w.line(l, "    subject: [%s]", strings.Join(subject, ", "))
	if len(joint) > 0 {
		w.line(l, "    joint: [%s]", strings.Join(joint, ", "))
	}
	w.line(l, "    algorithm: %s", map[string]string{"count": "fixed_window", "base": "base", "leak": "sliding_log"}[r.method])
	if r.method == "base" {
		w.line(l, "    base: {limit: %d, window: day}", r.base)
	}
	w.line(l, "    limit: %d", r.count)
	w.line(l, "    window: %s", r.window())
	if r.method == "base" || r.daily() {
		w.line(l, "    zone: %s", scalar(zone))
	}
	if action := f.results[r.result].action(); action != "deny" {
		w.line(l, "    on_exceed: %s", action)
	}
	w.line(l, "    on_store_error: local")
}

// action returns the action of r in a rules file.
func (r Result) action() string {
	switch {
	case r.admits():
		return "allow"
	case r.NeedVcode != 0:
		return "challenge"
	}
	return "deny"
}

// match returns all conditions; several on one parameter are combined.
func (r *rule) match() string {
	var names, fields []string
	tests := map[string][]string{}
	for _, c := range r.conditions {
		name := partOf(c.parameter)
		if tests[name] == nil {
			names = append(names, name)
		}
		tests[name] = append(tests[name], c.test)
	}
	for _, name := range names {
		test := tests[name][0]
		if len(tests[name]) > 1 {
			test = "{all: [" + strings.Join(tests[name], ", ") + "]}"
		}
		fields = append(fields, scalar(name)+": "+test)
	}
	return strings.Join(fields, ", ")
}

// subject returns the subject: the parameters whose values are counted, and those of them whose values share one count.
func (r *rule) subject() (subject, joint []string) {
	for _, c := range r.conditions {
		name := scalar(partOf(c.parameter))
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

var (
	plainText    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)
	plainNumbers = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)
)

// yamlWords are the words that YAML, or an older version of it, does not read as strings.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "unlimited"}

// scalar encodes a string so that YAML reads the same string.
func scalar(text string) string {
	if plainNumbers.MatchString(text) || plainText.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return quote(text)
}

func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // cannot fail for a string
	}
	return strings.TrimSuffix(b.String(), "\n")
}
