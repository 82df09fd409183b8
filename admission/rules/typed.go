package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Of returns the set of list. An invalid rule is reported by Err, with the text that the same rule has in a rules file.
//
// Of writes the rules file that says the same and parses it, so that a typed rule can mean nothing else than a rule in a file; the file is
// the Source of the set.
func Of(list ...Rule) *Set {
	w := &writer{}
	w.text.WriteString("version: 1\nrules:\n")
	for i := range list {
		w.places = append(w.places, place{w.line(), fmt.Sprintf("rule %q", list[i].Name)})
		w.rule(&list[i])
	}
	w.places = append(w.places, place{w.line(), "rules"})
	if len(list) == 0 {
		w.text.WriteString("  []\n")
	}
	for i, path := range w.files {
		if i == 0 {
			w.text.WriteString("lists:\n")
		}
		w.places = append(w.places, place{w.line(), fmt.Sprintf("list file %q", path)})
		fmt.Fprintf(&w.text, "  %s: {file: %s}\n", listName(i), w.encode(path))
	}
	set, err := w.parse()
	if err != nil {
		return &Set{err: err}
	}
	if len(w.files) > 0 {
		set = set.Reloadable(w.parse)
	}
	return set
}

// A writer writes rules as a rules file.
type writer struct {
	text   bytes.Buffer
	places []place  // in the order of their lines
	files  []string // of lists
	err    error    // the first that could not be written
}

// A place is the line on which a part of the written file begins, and what an error calls it.
type place struct {
	line int
	name string
}

// line returns the number of the next line.
func (w *writer) line() int { return 1 + bytes.Count(w.text.Bytes(), []byte("\n")) }

// parse parses what was written, and reads the list files.
func (w *writer) parse() (*Set, error) {
	if w.err != nil {
		return nil, w.err
	}
	set, err := newSource("rules").rules(w.text.Bytes())
	if err != nil {
		return nil, w.placed(err)
	}
	return set, nil
}

func listName(i int) string { return fmt.Sprintf("list-%d", i+1) }

// placed replaces the position of err in the written file by what is written there.
func (w *writer) placed(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.File != "rules" {
		return fmt.Errorf("rules: %w", err)
	}
	name := "rules"
	for _, p := range w.places {
		if p.line <= e.Line {
			name = p.name
		}
	}
	return fmt.Errorf("rules: %w", &Error{File: name, Problem: e.Problem})
}

// rule writes r, one key in a line.
func (w *writer) rule(r *Rule) {
	begin := "- "
	key := func(name string, set bool, value any) {
		if set {
			fmt.Fprintf(&w.text, "%s%s: %s\n", begin, name, w.encode(w.plain(value)))
			begin = "  "
		}
	}
	key("name", true, r.Name)
	key("match", len(r.Match) > 0, r.Match)
	key("subject", r.Subject != "", r.Subject)
	key("joint", r.Joint != "", r.Joint)
	key("algorithm", r.Algorithm != "", r.Algorithm)
	key("action", r.Action != "", r.Action)
	one := Window{Limit: r.Limit, Tiers: r.Tiers, Window: r.Window, Calendar: r.Calendar, Burst: r.Burst, Base: r.Base}
	if r.Algorithm != Direct || one.Limit != 0 || len(one.Tiers) > 0 || one.Window != 0 || one.Calendar != "" || one.Burst != 0 || one.Base != nil {
		for _, f := range one.fields(len(r.Windows) > 0) {
			key(f.name, true, f.value)
		}
	}
	key("windows", len(r.Windows) > 0, r.Windows)
	if r.Zone != nil {
		key("zone", true, zoneOf(r.Zone))
	}
	key("overrides", len(r.Overrides) > 0, r.Overrides)
	key("cost", r.Cost != 0, r.Cost)
	key("cost", r.CostFrom != "", r.CostFrom)
	key("count_rejected", r.CountRejected, true)
	key("on_exceed", r.OnExceed != Exceed{}, r.OnExceed)
	key("on_store_error", r.OnStoreError != "", r.OnStoreError)
	key("shadow", r.Shadow, true)
	key("public", r.Public != "", r.Public)
}

// A pair is a key of a rules file with its value.
type pair struct {
	name  string
	value any
}

// fields returns the keys of w. With optional, a window without limit and length has none.
func (w *Window) fields(optional bool) (fields []pair) {
	add := func(name string, set bool, value any) {
		if set {
			fields = append(fields, pair{name, value})
		}
	}
	switch {
	case len(w.Tiers) > 0 && w.Limit != 0:
		add("limit", true, "both Limit and Tiers")
	case len(w.Tiers) > 0:
		add("limit", true, limitsOf(w.Tiers))
	default:
		add("limit", !optional || w.Limit != 0, limitOf(w.Limit))
	}
	span, set := spanOf(w.Window, w.Calendar)
	add("window", set, span)
	add("algorithm", w.Algorithm != "", w.Algorithm)
	add("burst", w.Burst != 0, w.Burst)
	add("base", w.Base != nil, w.Base)
	return fields
}

func limitOf(n int) any {
	if n == Unlimited {
		return "unlimited"
	}
	return n
}

func limitsOf(tiers map[string]int) map[string]any {
	limits := map[string]any{}
	for tier, n := range tiers {
		limits[tier] = limitOf(n)
	}
	return limits
}

// spanOf returns the length of a window; set is false if there is none.
func spanOf(d time.Duration, c Calendar) (span string, set bool) {
	switch {
	case d == 0:
		return string(c), c != ""
	case c != "":
		return "both " + d.String() + " and " + string(c), true
	}
	return d.String(), true
}

// zoneOf returns the name of a zone of the time zone database, and otherwise a text that is none.
func zoneOf(zone *time.Location) string {
	name := zone.String()
	same, err := time.LoadLocation(name)
	for month := time.January; err == nil && month <= time.December; month++ {
		t := time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC)
		_, have := t.In(zone).Zone()
		if _, want := t.In(same).Zone(); have != want {
			return name + " with other offsets"
		}
	}
	return name
}

// plain returns v in the types of JSON, with the keys of a rules file.
func (w *writer) plain(v any) any {
	switch v := v.(type) {
	case []string:
		for _, text := range v {
			if !utf8.ValidString(text) {
				w.wrong(fmt.Sprintf("%.40q is no value, it should be at most %d bytes of UTF-8", text, maxValue)) // JSON would change it
			}
		}
	case Subject:
		return strings.Split(string(v), ",")
	case Match:
		all := map[string]any{}
		for _, part := range slices.Sorted(maps.Keys(v)) { // the same files get the same names each time
			all[part] = w.plain(v[part])
		}
		return all
	case Condition:
		if v.file != "" {
			w.files = append(w.files, v.file)
			return map[string]any{"list": listName(len(w.files) - 1)}
		}
		return w.plain(v.value)
	case []Condition:
		all := make([]any, len(v))
		for i, c := range v {
			all[i] = w.plain(c)
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for key, value := range v {
			all[key] = w.plain(value)
		}
		return all
	case []Window:
		all := make([]any, len(v))
		for i := range v {
			all[i] = w.pairs(v[i].fields(false))
		}
		return all
	case *Base:
		fields := []pair{{"limit", v.Limit}}
		if span, set := spanOf(v.Window, v.Calendar); set {
			fields = append(fields, pair{"window", span})
		}
		return w.pairs(fields)
	case []Override:
		all := make([]any, len(v))
		for i := range v {
			o := &v[i]
			limit := Window{Limit: o.Limit, Tiers: o.Tiers}
			fields := limit.fields(len(o.Windows) > 0)
			if len(o.Match) > 0 {
				fields = append(fields, pair{"match", o.Match})
			}
			if len(o.Windows) > 0 {
				fields = append(fields, pair{"windows", o.Windows})
			}
			all[i] = w.pairs(fields)
		}
		return all
	case Exceed:
		return w.exceed(v)
	}
	return v
}

func (w *writer) exceed(e Exceed) map[string]any {
	all := map[string]any{"action": e.Action}
	if e.Action == "" {
		all["action"] = Deny
	}
	if e.After != 0 {
		all["after"] = e.After
	}
	if e.Growing {
		all["growing"] = true
	}
	for key, d := range map[string]time.Duration{"within": e.Within, "for": e.For, "at_most": e.AtMost} {
		if d != 0 {
			all[key] = d.String()
		}
	}
	return all
}

func (w *writer) pairs(fields []pair) map[string]any {
	all := map[string]any{}
	for _, f := range fields {
		all[f.name] = w.plain(f.value)
	}
	return all
}

// encode returns v, made of strings, numbers, booleans, lists and maps, as JSON, which is YAML on one line.
func (w *writer) encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		var inner *json.MarshalerError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		w.wrong(err.Error())
	}
	return strings.TrimSpace(b.String())
}

// wrong keeps the first problem, with what is being written.
func (w *writer) wrong(problem string) {
	if w.err == nil {
		w.err = fmt.Errorf("rules: %w", &Error{File: w.places[len(w.places)-1].name, Problem: problem})
	}
}
