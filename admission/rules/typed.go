package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

// Of returns the set of list. An invalid rule is reported by Err, with the text that the same rule has in a rules file and the name of the
// rule for the position.
//
// Of builds the tree that the same rules have in a file, so that a typed rule can mean nothing else than a rule in a file. The Source of
// the set is that file.
func Of(list ...Rule) *Set {
	b := &builder{}
	set, err := b.set(list)
	if err == nil && b.err == nil {
		return set
	}
	return &Set{err: fmt.Errorf("rules: %w", cmp.Or(b.err, err))}
}

// A builder builds the tree of typed rules.
type builder struct {
	rulesfile.At // the part that is being built

	files []rulesfile.Pair // of lists, by the names that they get
	err   error            // the first of what has no tree
}

// A part is the Place of a part of typed rules.
type part struct {
	name   string
	number int // of the rule, from 1
}

func (p part) Wrong(problem string) error { return &Error{File: p.name, Problem: problem} }

func (p part) Line() int { return p.number }

// within builds a part of the current one.
func (b *builder) within(name string, build func() *rulesfile.Node) *rulesfile.Node {
	at := b.At
	defer func() { b.At = at }()
	p := at.Place.(part)
	b.Place = part{p.name + ", " + name, p.number}
	return build()
}

func (b *builder) wrong(format string, args ...any) {
	b.err = cmp.Or(b.err, b.Wrong(fmt.Sprintf(format, args...)))
}

func (b *builder) set(list []Rule) (*Set, error) {
	var source strings.Builder
	source.WriteString("version: 1\nrules:\n")
	all := make([]*rulesfile.Node, len(list))
	for i := range list {
		b.Place = part{fmt.Sprintf("rule %q", list[i].Name), i + 1}
		all[i] = b.rule(&list[i])
		source.WriteString(all[i].Block(""))
	}
	if len(all) == 0 {
		source.WriteString("  []\n")
	}
	b.Place = part{name: "rules"}
	root := b.Mapping(b.Pair("version", b.Int(1)), b.Pair("rules", b.List(all...)), b.Pair("lists", b.Mapping(b.files...)))
	for i, file := range b.files {
		if i == 0 {
			source.WriteString("lists:\n")
		}
		fmt.Fprintf(&source, "  %s: %s\n", file.Key.Flow(), file.Value.Flow())
	}
	compile := func() (*Set, error) { return Compile("rules", root, []byte(source.String())) }
	set, err := compile()
	if err == nil && len(b.files) > 0 {
		set = set.Reloadable(compile)
	}
	return set, err
}

// listFile returns the name of the list that is read from the file at path.
func (b *builder) listFile(path string) string {
	at := rulesfile.At{Place: part{name: fmt.Sprintf("list file %q", path)}}
	name := fmt.Sprintf("list-%d", len(b.files)+1)
	b.files = append(b.files, at.Pair(name, at.Mapping(at.Pair("file", at.Text(path)))))
	return name
}

// keys are the keys of a mapping that is being built.
type keys struct {
	*builder
	pairs []rulesfile.Pair
}

func (k *keys) add(key string, value *rulesfile.Node) { k.pairs = append(k.pairs, k.Pair(key, value)) }

// word, and the methods below it, leave out zero values.
func word[T ~string](k *keys, key string, value T) {
	if value != "" {
		k.add(key, k.Text(string(value)))
	}
}

func (k *keys) int(key string, value int) {
	if value != 0 {
		k.add(key, k.Int(int64(value)))
	}
}

func (k *keys) bool(key string, value bool) {
	if value {
		k.add(key, k.Bool(true))
	}
}

func (k *keys) duration(key string, value time.Duration) {
	if value != 0 {
		k.add(key, k.Text(value.String()))
	}
}

func (k *keys) subject(key string, s Subject) {
	if s != "" {
		k.add(key, k.Texts(strings.Split(string(s), ",")...))
	}
}

func (k *keys) match(m Match) {
	if len(m) == 0 {
		return
	}
	var parts []rulesfile.Pair
	for _, name := range slices.Sorted(maps.Keys(m)) { // the same rules have the same tree each time
		parts = append(parts, k.Pair(name, k.condition(m[name])))
	}
	k.add("match", k.Mapping(parts...))
}

// limit adds a limit for all tiers, which may be zero unless it is optional, or one for each.
func (k *keys) limit(limit int, tiers map[string]int, optional bool) {
	one := func(n int) *rulesfile.Node {
		if n == Unlimited {
			return k.Text("unlimited")
		}
		return k.Int(int64(n))
	}
	switch {
	case len(tiers) > 0 && limit != 0:
		k.wrong(`limit should be Limit or Tiers, here is "both Limit and Tiers"`)
	case len(tiers) > 0:
		var all []rulesfile.Pair
		for _, tier := range slices.Sorted(maps.Keys(tiers)) {
			all = append(all, k.Pair(tier, one(tiers[tier])))
		}
		k.add("limit", k.Mapping(all...))
	case limit != 0 || !optional:
		k.add("limit", one(limit))
	}
}

func (k *keys) span(d time.Duration, c Calendar) {
	if d != 0 && c != "" {
		k.wrong(`window should be Window or Calendar, here is "both %v and %s"`, d, c)
	}
	k.duration("window", d)
	word(k, "window", c)
}

func (k *keys) window(w *Window, optional bool) {
	k.limit(w.Limit, w.Tiers, optional)
	k.span(w.Window, w.Calendar)
	word(k, "algorithm", w.Algorithm)
	k.int("burst", w.Burst)
	if w.Base != nil {
		base := keys{builder: k.builder}
		base.limit(w.Base.Limit, nil, false)
		base.span(w.Base.Window, w.Base.Calendar)
		k.add("base", k.Mapping(base.pairs...))
	}
}

func (k *keys) windows(all []Window) {
	if len(all) == 0 {
		return
	}
	items := make([]*rulesfile.Node, len(all))
	for i := range all {
		items[i] = k.within(fmt.Sprintf("Windows[%d]", i), func() *rulesfile.Node {
			w := keys{builder: k.builder}
			w.window(&all[i], false)
			return k.Mapping(w.pairs...)
		})
	}
	k.add("windows", k.List(items...))
}

func (k *keys) overrides(all []Override) {
	if len(all) == 0 {
		return
	}
	items := make([]*rulesfile.Node, len(all))
	for i := range all {
		items[i] = k.within(fmt.Sprintf("Overrides[%d]", i), func() *rulesfile.Node {
			o := keys{builder: k.builder}
			o.match(all[i].Match)
			o.limit(all[i].Limit, all[i].Tiers, len(all[i].Windows) > 0)
			o.windows(all[i].Windows)
			return k.Mapping(o.pairs...)
		})
	}
	k.add("overrides", k.List(items...))
}

func (k *keys) zone(zone *time.Location) {
	name := zone.String()
	same, err := time.LoadLocation(name)
	for month := time.January; err == nil && month <= time.December; month++ {
		t := time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC)
		_, have := t.In(zone).Zone()
		if _, want := t.In(same).Zone(); have != want {
			k.wrong("zone %q is unknown, it should be one of the time zone database", name+" with other offsets")
			return
		}
	}
	k.add("zone", k.Text(name))
}

func (k *keys) exceed(e Exceed) {
	if e == (Exceed{}) {
		return
	}
	of := keys{builder: k.builder}
	word(&of, "action", cmp.Or(e.Action, Deny))
	of.int("after", e.After)
	of.duration("within", e.Within)
	of.duration("for", e.For)
	of.bool("growing", e.Growing)
	of.duration("at_most", e.AtMost)
	k.add("on_exceed", k.Mapping(of.pairs...))
}

// rule returns the tree of r.
func (b *builder) rule(r *Rule) *rulesfile.Node {
	k := keys{builder: b}
	k.add("name", b.Text(r.Name))
	k.match(r.Match)
	k.subject("subject", r.Subject)
	k.subject("joint", r.Joint)
	word(&k, "action", r.Action)
	one := Window{r.Limit, r.Tiers, r.Window, r.Calendar, r.Algorithm, r.Burst, r.Base}
	k.window(&one, r.Algorithm == Direct || len(r.Windows) > 0)
	k.windows(r.Windows)
	if r.Zone != nil {
		k.zone(r.Zone)
	}
	k.overrides(r.Overrides)
	k.int("cost", r.Cost)
	word(&k, "cost", r.CostFrom)
	k.bool("count_rejected", r.CountRejected)
	k.exceed(r.OnExceed)
	word(&k, "on_store_error", r.OnStoreError)
	k.bool("shadow", r.Shadow)
	word(&k, "public", r.Public)
	return b.Mapping(k.pairs...)
}
