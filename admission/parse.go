package admission

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/internal/bounded"
	"github.com/tidegate/tidegate/internal/names"
)

const (
	maxRules   = 1000
	maxLists   = 1000
	maxWindows = 8
)

var methodNames = regexp.MustCompile(`^[A-Z]{1,32}$`)

func ruleName(s string) bool { return names.Lower(s, "-", 64) }

// plainName reports whether s may name a tier or a list.
func plainName(s string) bool { return names.Mixed(s, "_.-", 64) }

func attributeName(s string) bool { return plainName(s) && !strings.Contains("0123456789.-", s[:1]) }

// ParseRules parses the rules file src; name appears in errors. Anything unknown is an error, which wraps a *RulesError with line and
// column. Files of lists are relative to the directory of name. A leading byte order mark is ignored.
func ParseRules(name string, src []byte) (*Rules, error) {
	s := &source{file: name, lists: map[string]*valueList{}}
	rules, err := s.rules(bytes.TrimPrefix(src, []byte("\ufeff"))) // some editors write it
	if err != nil {
		return nil, fmt.Errorf("admission: parse rules: %w", err)
	}
	return rules, nil
}

// LoadRules reads the rules file at path and the files of its lists. See ParseRules for errors.
func LoadRules(path string) (*Rules, error) {
	src, err := bounded.File(path, maxSource)
	if err != nil {
		return nil, fmt.Errorf("admission: load rules: %w", err)
	}
	rules, err := ParseRules(path, src)
	if err != nil {
		return nil, err
	}
	return rules.Reloadable(func() (*Rules, error) { return LoadRules(path) }, path), nil
}

// rules parses a whole file.
func (s *source) rules(src []byte) (*Rules, error) {
	root, err := s.root(src)
	if err != nil {
		return nil, err
	}
	var (
		r       = &Rules{source: src}
		version bool
		later   []func() error // deferred: needs the lists, which may follow anywhere in the file
		none    = s.wrong(root, `the key "rules" is missing, it should be a list of rules`)
	)
	after := func(read func(ast.Node) error) func(_, n ast.Node) error {
		return func(_, n ast.Node) error {
			later = append(later, func() error { return read(n) })
			return nil
		}
	}
	err = s.mapping(root, "a rules file",
		field{"version", func(_, n ast.Node) error {
			_, err := s.number(n, "version", 1, 1)
			version = true
			return err
		}},
		field{"answer", func(_, n ast.Node) error {
			word, err := s.oneOf(n, "answer", "strongest", "first")
			r.first = word == "first"
			return err
		}},
		field{"lists", func(_, n ast.Node) error { return s.readLists(n) }},
		field{"rules", after(func(n ast.Node) (err error) {
			if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
				none = s.wrong(n, "rules is empty")
				return nil
			}
			r.rules, err = s.ruleList(n)
			return err
		})},
		field{"bans", after(func(n ast.Node) error { return s.bans(n, r) })},
		field{"semaphores", func(_, n ast.Node) (err error) {
			r.semaphores, err = s.semaphores(n)
			return err
		}},
		field{"login", func(_, n ast.Node) (err error) {
			r.login, err = s.login(n)
			return err
		}},
	)
	if err != nil {
		return nil, err
	}
	for _, read := range later {
		if err := read(); err != nil {
			return nil, err
		}
	}
	switch {
	case !version:
		return nil, s.wrong(root, `the key "version" is missing, it should be "version: 1"`)
	case len(r.rules) == 0 && len(r.semaphores) == 0 && len(r.login) == 0:
		return nil, none
	}
	for _, l := range s.lists {
		if !l.used {
			s.idle = append(s.idle, Warning{Line: l.line, Text: "list " + l.name + " is used by nothing. Leave it out"})
		}
	}
	r.files, r.idle = s.files, s.idle
	r.seal(s.contents)
	return r, nil
}

func (s *source) ruleList(n ast.Node) (rules []rule, err error) {
	named := map[string]bool{}
	err = s.list(n, "rules", func(n ast.Node) error {
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
	return rules, err
}

// readLists reads lists by name, each from a file or from inline values.
func (s *source) readLists(n ast.Node) error {
	return s.pairs(n, "lists", func(name string, at, n ast.Node) error {
		switch {
		case !plainName(name):
			return s.wrong(at, "%q is no name of a list, it should be 1 to 64 of A-Z a-z 0-9 _ . -", name)
		case s.lists[name] != nil:
			return s.wrong(at, "lists has %q twice", name)
		case len(s.lists) == maxLists:
			return s.wrong(at, "there are more than %d lists", maxLists)
		}
		var file, values ast.Node
		l := newList(name)
		err := s.mapping(n, "a list",
			field{"file", func(_, n ast.Node) error { file = n; return nil }},
			field{"values", func(_, n ast.Node) error {
				values = n
				return s.list(n, "values", func(n ast.Node) error {
					text, err := s.scalar(n, "a value")
					if err != nil {
						return err
					}
					if problem := l.add(text); problem != "" {
						return s.wrong(n, "%s", problem)
					}
					return nil
				})
			}},
		)
		switch {
		case err != nil:
			return err
		case (file == nil) == (values == nil):
			return s.wrong(n, "list %q should have either file or values, such as {file: lists/%s.txt}", name, name)
		case file != nil:
			l, err = s.listFile(name, file)
		}
		if err != nil {
			return err
		}
		l.line = line(at)
		s.lists[name] = l
		return nil
	})
}

func (s *source) listFile(name string, n ast.Node) (*valueList, error) {
	path, err := s.text(n, "file")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(s.file), path)
	}
	content, err := bounded.File(path, maxListFile)
	if err != nil {
		return nil, s.wrong(n, "list %q cannot be read: %v", name, err)
	}
	s.files = append(s.files, path)
	s.contents = append(s.contents, content)
	return parseList(path, name, content)
}
