package rules

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidegate/tidegate/internal/bounded"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
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

// An Error is an error at one place of a rules file: File, Line and Column from 1, or 0 if it concerns the whole file, and Problem. Its
// text begins with file:line:column, which editors recognize, and ends with what would be right. Parse returns it wrapped: use errors.As.
type Error = rulesfile.Error

// A Section is a section of the rules file that another package parses, such as login.Section.
type Section = rulesfile.Checker

// A source parses one rules file.
type source struct {
	*rulesfile.File
	path     string
	sections []Section
	lists    map[string]*valueList

	files    []string  // files of lists
	contents [][]byte  // contents of files
	doubts   []Warning // see Lint
}

func newSource(path string, sections ...Section) *source {
	return &source{File: rulesfile.New(path), path: path, sections: sections, lists: map[string]*valueList{}}
}

// Parse parses the rules file src; name appears in errors. Anything unknown is an error, which wraps a *Error with line and
// column. Files of lists are relative to the directory of name. A leading byte order mark is ignored. The sections of other packages are
// parsed when they are used; those in sections are parsed at once, so that an error in them is one of the file.
func Parse(name string, src []byte, sections ...Section) (*Set, error) {
	s := newSource(name, sections...)
	rules, err := s.rules(bytes.TrimPrefix(src, []byte("\ufeff"))) // some editors write it
	if err != nil {
		return nil, fmt.Errorf("rules: parse: %w", err)
	}
	return rules, nil
}

// Load reads the rules file at path and the files of its lists. See Parse for sections and errors.
func Load(path string, sections ...Section) (*Set, error) {
	src, err := bounded.File(path, rulesfile.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("rules: load: %w", err)
	}
	rules, err := Parse(path, src, sections...)
	if err != nil {
		return nil, err
	}
	return rules.Reloadable(func() (*Set, error) { return Load(path, sections...) }, path), nil
}

// doubt adds a warning about a line of the file.
func (s *source) doubt(line int, format string, args ...any) {
	s.doubts = append(s.doubts, Warning{Line: line, Text: fmt.Sprintf(format, args...)})
}

// rules parses a whole file.
func (s *source) rules(src []byte) (*Set, error) {
	root, err := s.Root(src)
	if err != nil {
		return nil, err
	}
	var (
		r       = &Set{source: src, sections: rulesfile.NewSections(s.File)}
		version bool
		others  bool           // another package has a section that is not empty
		later   []func() error // deferred: needs the lists, which may follow anywhere in the file
		none    = s.Wrong(root, `the key "rules" is missing, it should be a list of rules`)
	)
	after := func(read func(ast.Node) error) func(_, n ast.Node) error {
		return func(_, n ast.Node) error {
			later = append(later, func() error { return read(n) })
			return nil
		}
	}
	other := func(key string) rulesfile.Field {
		return rulesfile.Key(key, func(_, n ast.Node) error {
			others = others || !empty(n)
			return r.sections.Add(key, n, s.sections...)
		})
	}
	err = s.Mapping(root, "a rules file",
		rulesfile.Key("version", func(_, n ast.Node) error {
			_, err := s.Number(n, "version", 1, 1)
			version = true
			return err
		}),
		rulesfile.Key("answer", func(_, n ast.Node) error {
			word, err := s.OneOf(n, "answer", "strongest", "first")
			r.first = word == "first"
			return err
		}),
		rulesfile.Key("lists", func(_, n ast.Node) error { return s.readLists(n) }),
		rulesfile.Key("rules", after(func(n ast.Node) (err error) {
			if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
				none = s.Wrong(n, "rules is empty")
				return nil
			}
			r.rules, err = s.ruleList(n)
			return err
		})),

		rulesfile.Key("bans", after(func(n ast.Node) error { return s.bans(n, r) })),
		other("semaphores"), other("login"),
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
		return nil, s.Wrong(root, `the key "version" is missing, it should be "version: 1"`)
	case len(r.rules) == 0 && !others:
		return nil, none
	}
	for _, l := range s.lists {
		switch {
		case !l.used:
			s.doubt(l.line, "list %s is used by nothing. Leave it out", l.name)
		case !l.other && l.strays > 0:
			s.doubt(l.line, "list %s is used for ip only, and %d of its values never match, because they are no addresses, first %s. "+
				"Write addresses such as 192.0.2.1, or networks such as 10.0.0.0/8", l.name, l.strays, l.stray)
		}
	}
	r.files, r.doubts = s.files, s.doubts
	r.seal(s.contents)
	return r, nil
}

// empty reports whether n is not a mapping or a list with values.
func empty(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	case *ast.MappingValueNode:
		return false
	}
	return true
}

func (s *source) ruleList(n ast.Node) (rules []rule, err error) {
	named := map[string]bool{}
	err = s.List(n, "rules", func(n ast.Node) error {
		r, err := s.rule(n)
		switch {
		case err != nil:
			return err
		case named[r.Name]:
			return s.Wrong(n, "a second rule is called %q, names should be unique", r.Name)
		case len(rules) == maxRules:
			return s.Wrong(n, "there are more than %d rules", maxRules)
		}
		named[r.Name] = true
		rules = append(rules, r)
		return nil
	})
	return rules, err
}

// readLists reads lists by name, each from a file or from inline values.
func (s *source) readLists(n ast.Node) error {
	return s.Pairs(n, "lists", func(name string, at, n ast.Node) error {
		switch {
		case !plainName(name):
			return s.Wrong(at, "%q is no name of a list, it should be 1 to 64 of A-Z a-z 0-9 _ . -", name)
		case s.lists[name] != nil:
			return s.Wrong(at, "lists has %q twice", name)
		case len(s.lists) == maxLists:
			return s.Wrong(at, "there are more than %d lists", maxLists)
		}
		var file, values ast.Node
		l := newList(name)
		err := s.Mapping(n, "a list",
			rulesfile.Key("file", func(_, n ast.Node) error { file = n; return nil }),
			rulesfile.Key("values", func(_, n ast.Node) error {
				values = n
				return s.List(n, "values", func(n ast.Node) error {
					text, err := s.scalar(n, "a value")
					if err != nil {
						return err
					}
					if problem := l.add(text, s.path, rulesfile.Line(n)); problem != "" {
						return s.Wrong(n, "%s", problem)
					}
					s.misread(n, text)
					return nil
				})
			}),
		)
		switch {
		case err != nil:
			return err
		case (file == nil) == (values == nil):
			return s.Wrong(n, "list %q should have either file or values, such as {file: lists/%s.txt}", name, name)
		case file != nil:
			l, err = s.listFile(name, file)
		}
		if err != nil {
			return err
		}
		l.line = rulesfile.Line(at)
		s.lists[name] = l
		return nil
	})
}

func (s *source) listFile(name string, n ast.Node) (*valueList, error) {
	path, err := s.Text(n, "file")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(s.path), path)
	}
	content, err := bounded.File(path, maxListFile)
	if err != nil {
		return nil, s.Wrong(n, "list %q cannot be read: %v", name, err)
	}
	s.files = append(s.files, path)
	s.contents = append(s.contents, content)
	return parseList(path, name, content)
}

// bans parses the list of targets that are never banned.
func (s *source) bans(n ast.Node, r *Set) error {
	fields := append([]rulesfile.Field{rulesfile.Key("allow", func(_, n ast.Node) error {
		return s.OneOrMore(n, "allow", func(n ast.Node) error {
			l, err := s.listNamed(n, "bans")
			if err == nil && l.empty() {
				s.doubt(rulesfile.Line(n), "list %s is empty: nobody is kept from being banned. Fill it, or leave out bans.allow", l.name)
			}
			r.never = append(r.never, l)
			return err
		})
	})}, rulesfile.Others("run", "per_minute", "widest_v4", "widest_v6")...)
	if err := s.Mapping(n, "bans", fields...); err != nil {
		return err
	}
	return r.sections.Add("bans", n, s.sections...)
}
