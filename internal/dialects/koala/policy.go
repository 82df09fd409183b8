package koala

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/bounded"
)

// A policy is one version of a rule file. It is immutable. It does not hold the admission rules and their lists, because it is kept for a
// while after those have been released.
type policy struct {
	version  string // of the rules made from it
	file     *file
	files    []string         // the files that it was read from, without those of dicts
	named    map[string]*rule // by name in the admission rules
	numbered map[int]*rule    // by return number
	asksIP   bool             // a rule uses the parameter ip
	warnings []string
}

// maxFile is the maximum size of a rule file, in bytes.
const maxFile = 1 << 20

// load reads a rule file, or the one named by a koala.conf, and translates it. zone is the zone of calendar days.
func load(path string, zone *time.Location) (*policy, *rules.Set, error) {
	src, err := bounded.File(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("koala: %w", err)
	}
	files := []string{path}
	var warnings []string
	if !isRuleFile(src) {
		c := &conf{values: map[string]part{}}
		if err := c.read(path, nil); err != nil {
			return nil, nil, fmt.Errorf("koala: %w", err)
		}
		rules, ok := c.values["rule_file"]
		if !ok || rules.text == "" {
			return nil, nil, fmt.Errorf("koala: %s has neither a section [rules] nor a line such as rule_file = conf/koala_rule.conf", path)
		}
		if path, err = find(rules.line.file, rules.text); err != nil {
			return nil, nil, fmt.Errorf("koala: %w", rules.wrong("the rule file cannot be read: %v", rules.named(err)))
		}
		if src, err = bounded.File(path, maxFile); err != nil {
			return nil, nil, fmt.Errorf("koala: %w", rules.wrong("the rule file cannot be read: %v", err))
		}
		files, warnings = append(c.files, path), c.warnings()
	}
	p, rules, err := parse(path, src, zone)
	if err != nil {
		return nil, nil, fmt.Errorf("koala: %w", err)
	}
	p.files, p.warnings = files, append(warnings, p.file.dictWarnings()...)
	return p, rules, nil
}

// isRuleFile reports whether src is a rule file, not a koala.conf.
func isRuleFile(src []byte) bool {
	for text := range strings.Lines(string(src)) {
		text = strings.ToLower(strings.Trim(text, blanks+"\n\ufeff"))
		if slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(text, s) }) {
			return true
		}
	}
	return false
}

// parse translates the content of a rule file. Errors are *rules.Error with its line numbers.
func parse(path string, src []byte, zone *time.Location) (*policy, *rules.Set, error) {
	f, err := parseFile(path, src)
	if err != nil {
		return nil, nil, err
	}
	rules, err := f.translate(zone.String())
	if err != nil {
		return nil, nil, err
	}
	p := &policy{version: rules.Version(), file: f, named: map[string]*rule{}, numbered: map[int]*rule{}}
	for _, r := range f.rules {
		p.named[r.name()], p.numbered[r.code] = r, r
		for _, c := range r.conditions {
			p.asksIP = p.asksIP || c.parameter == "ip"
		}
	}
	return p, rules, nil
}

// answer returns the result of r for a caller.
func (p *policy) answer(r *rule) Result {
	result := p.file.results[r.result]
	result.RetCode = r.code
	return result
}
