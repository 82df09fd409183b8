package koala

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A writer makes the rules file, and remembers of which line of the rule file each of its lines is.
type writer struct {
	text strings.Builder
	of   []*line // by line, from 0
}

func (w *writer) line(of *line, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.text.WriteString(strings.ReplaceAll(text, "\v", " ") + "\n") // a blank of Koala's, and none of YAML's
	w.of = append(w.of, of)
}

// yaml is the rules file that decides as f says. Everything of f stands in it, what rules files have no words for as a comment.
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

// rule writes one rule, and the line it comes from above it.
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

// action is what a rules file calls what r does with a caller.
func (r Result) action() string {
	switch {
	case r.admits():
		return "allow"
	case r.NeedVcode != 0:
		return "challenge"
	}
	return "deny"
}

// match writes all conditions; those of one parameter have to hold together.
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

// subject is what the rule counts: the values of all its parameters, those that are joint being counted together.
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

// relative is a path as seen from the folder of the rule file.
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

// yamlWords are those that YAML, or an older version of it, takes for something else than a text.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "unlimited"}

// scalar writes a text so that YAML reads that very text.
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
		panic(err) // of a string it cannot fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}
