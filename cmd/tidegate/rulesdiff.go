package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/goccy/go-yaml"

	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/serve"
)

// errDifferent is the result of a comparison that has printed differences.
var errDifferent = finding{errors.New("the rules differ")}

var diffRules = apiCall{
	use: "diff FILE", short: "Compare a rules file with the rules in force",
	long: "Compare a rules file with the rules in force on the server, rule by rule, and show what a reload would change. Comments and " +
		"the order of keys are ignored.\nAs with diff, the exit status is 0 without differences, 1 with differences, and 2 on errors.",
	method: http.MethodGet, path: func([]string) []string { return []string{"v1", "rules"} },
	show: func(out io.Writer, args []string, answer []byte, asJSON bool) error {
		var inForce admit.RulesInForce
		if err := json.Unmarshal(answer, &inForce); err != nil {
			return fmt.Errorf("unexpected response: %w", err)
		}
		rules, err := serve.LoadRules(args[0])
		if err != nil {
			return err
		}
		d := rulesDiff{From: inForce.Version, To: rules.Version()}
		if d.Changes, err = compareRules(inForce.Source, string(rules.Source())); err != nil {
			return err
		}
		if asJSON {
			text, err := json.Marshal(d)
			fmt.Fprintf(out, "%s\n", harmlessJSON(text))
			return errors.Join(err, d.outcome())
		}
		d.print(out, args[0])
		return d.outcome()
	},
}

// A rulesDiff is the set of changes between two versions of the rules.
type rulesDiff struct {
	From    string       `json:"from"` // version in force
	To      string       `json:"to"`   // version of the file
	Changes []ruleChange `json:"changes"`
}

// A ruleChange is the change of one part of the file.
type ruleChange struct {
	Part   string `json:"part"`   // such as "rule api", "lists" or "order of rules"
	Change string `json:"change"` // added, removed or changed
	Diff   string `json:"diff"`   // lines that begin with "+", "-" or a space
}

func (d *rulesDiff) outcome() error {
	if d.From == d.To { // versions identify the content, lists included
		return nil
	}
	return errDifferent
}

func (d *rulesDiff) print(out io.Writer, file string) {
	if d.outcome() == nil {
		fmt.Fprintf(out, "%s equals the rules in force, version %s\n", file, d.To)
		return
	}
	fmt.Fprintf(out, "--- in force, version %s\n+++ %s, version %s\n", input.Harmless(d.From), file, d.To)
	for _, c := range d.Changes {
		fmt.Fprintf(out, "@@ %s, %s @@\n", input.Harmless(c.Part), c.Change)
		for line := range strings.Lines(c.Diff) {
			fmt.Fprintln(out, input.Harmless(strings.TrimSuffix(line, "\n")))
		}
	}
	if len(d.Changes) == 0 {
		fmt.Fprintln(out, "only comments, formatting or list files differ")
	}
}

// compareRules returns the parts that differ between two rules files: first those of the old file, in its order, then the new ones.
func compareRules(from, to string) ([]ruleChange, error) {
	before, err := partsOf(from)
	if err != nil {
		return nil, fmt.Errorf("the rules in force: %w", err)
	}
	after, err := partsOf(to)
	if err != nil {
		return nil, err
	}
	changes := []ruleChange{}
	for _, name := range slices.Concat(before.names, slices.DeleteFunc(after.names, before.has)) {
		was, is := before.text[name], after.text[name]
		if was == is {
			continue
		}
		change := ruleChange{Part: name, Change: "changed", Diff: diffLines(was, is)}
		switch {
		case !before.has(name):
			change.Change = "added"
		case !after.has(name):
			change.Change = "removed"
		}
		changes = append(changes, change)
	}
	// The order of rules matters, because a rule can end the search. Added and removed rules are listed above.
	kept := func(of, other *rulesParts) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(of.rules), func(rule string) bool { return !other.has(rule) }), "\n") + "\n"
	}
	if was, is := kept(&before, &after), kept(&after, &before); was != is {
		changes = append(changes, ruleChange{Part: "order of rules", Change: "changed", Diff: diffLines(was, is)})
	}
	return changes, nil
}

// diffLines returns a diff with the full context.
func diffLines(was, is string) string {
	unified, err := udiff.ToUnified("", "", was, udiff.Lines(was, is), len(was)+len(is))
	if err != nil {
		return "-" + was + "\n+" + is // does not happen with computed edits
	}
	_, lines, _ := strings.Cut(unified, " @@\n")
	return lines
}

// rulesParts are the parts of a rules file in canonical form.
type rulesParts struct {
	names, rules []string // names of all parts; names of the rules
	text         map[string]string
}

func (p *rulesParts) has(name string) bool { _, ok := p.text[name]; return ok }

func partsOf(source string) (p rulesParts, err error) {
	var file map[string]any
	if err := yaml.Unmarshal([]byte(source), &file); err != nil {
		return p, err
	}
	p.text = map[string]string{}
	add := func(name string, part any) error {
		text, err := yaml.Marshal(part) // marshalling sorts keys
		p.names, p.text[name] = append(p.names, name), string(text)
		return err
	}
	list, _ := file["rules"].([]any)
	delete(file, "rules")
	for i, part := range list {
		name := fmt.Sprintf("rule %d", i+1)
		if rule, ok := part.(map[string]any); ok && rule["name"] != nil {
			name = fmt.Sprintf("rule %v", rule["name"])
		}
		if err := add(name, part); err != nil {
			return p, err
		}
	}
	p.rules = slices.Clone(p.names)
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if err := add(name, file[name]); err != nil {
			return p, err
		}
	}
	return p, nil
}
