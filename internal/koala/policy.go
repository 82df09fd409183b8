package koala

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// A policy is one version of a rule file. It never changes, and has no rules that decide, nor their lists: it is remembered for a while after
// those are gone.
type policy struct {
	version  string // of the rules that are made of it
	file     *file
	files    []string         // that it was read from, without those of dicts
	named    map[string]*rule // by the name that rules gives it
	numbered map[int]*rule    // by its return number
	asksIP   bool             // a rule looks at the parameter ip
	warnings []string
}

// maxFile is the longest rule file, in bytes.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path) // a pipe would make us wait
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(src) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return src, err
}

// load reads a rule file, or the one that a koala.conf names, and makes the rules that decide. Days are those of zone.
func load(path string, zone *time.Location) (*policy, *admission.Rules, error) {
	src, err := readFile(path)
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
		if src, err = readFile(path); err != nil {
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

// isRuleFile tells a rule file from a koala.conf.
func isRuleFile(src []byte) bool {
	for text := range strings.Lines(string(src)) {
		text = strings.ToLower(strings.Trim(text, blanks+"\n\ufeff"))
		if slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(text, s) }) {
			return true
		}
	}
	return false
}

// parse makes a policy of the content of a rule file. Errors are *admission.RulesError, of its lines.
func parse(path string, src []byte, zone *time.Location) (*policy, *admission.Rules, error) {
	f, err := parseFile(path, src)
	if err != nil {
		return nil, nil, err
	}
	made := f.yaml(zone.String())
	rules, err := admission.ParseRules(path, []byte(made.text.String()))
	if err != nil {
		return nil, nil, made.placed(path, err)
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

// placed is an error of the rules file as one of the rule file, whose path it has. Those of lists stay what they are.
func (w *writer) placed(path string, err error) error {
	var e *admission.RulesError
	switch {
	case !errors.As(err, &e) || e.File != path:
		return err
	case e.Line < 1 || e.Line > len(w.of):
		return fmt.Errorf("%s: of the rules file that is made of it: %s", path, e.Problem)
	}
	return w.of[e.Line-1].whole().wrong("%s", e.Problem)
}

// answer is what r says to a caller.
func (p *policy) answer(r *rule) Result {
	result := p.file.results[r.result]
	result.RetCode = r.code
	return result
}
