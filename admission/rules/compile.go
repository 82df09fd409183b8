package rules

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidegate/tidegate/internal/bounded"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/rulesfile"
)

const (
	maxRules   = 1000
	maxLists   = 1000
	maxWindows = 8
)

func ruleName(s string) bool { return names.Lower(s, "-", names.Longest) }

// plainName reports whether s may name a tier or a list.
func plainName(s string) bool { return names.Mixed(s, "_.-", names.Longest) }

func attributeName(s string) bool { return plainName(s) && !strings.Contains("0123456789.-", s[:1]) }

// An Error is an error at one place of a rules file: File, Line and Column from 1, or 0 if it concerns the whole file, and Problem. Its
// text begins with file:line:column, which editors recognize, and ends with what would be right. Parse returns it wrapped: use errors.As.
// Of a rule that was given to Of, File is its name, such as `rule "api"`, and there is no line.
type Error = rulesfile.Error

// A Section is a section of the rules file that another package reads, such as login.Section.
type Section = rulesfile.Checker

// Parse parses the rules file src; name appears in errors. Anything unknown is an error, which wraps a *Error with line and
// column. Files of lists are relative to the directory of name. A leading BOM is ignored. The sections of other packages are
// read when they are used; those in sections are read at once, so that an error in them is one of the file.
func Parse(name string, src []byte, sections ...Section) (*Set, error) {
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // some editors write it
	root, err := rulesfile.Parse(name, src)
	var rules *Set
	if err == nil {
		rules, err = Compile(name, root, src, sections...)
	}
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

// A compiler makes a Set of the tree of one rules file.
type compiler struct {
	path     string // of the file
	sections []Section
	lists    map[string]*valueList

	files    []string  // files of lists
	contents [][]byte  // contents of files
	doubts   []Warning // see Lint
}

// doubt adds a warning about a line of the file.
func (c *compiler) doubt(line int, format string, args ...any) {
	c.doubts = append(c.doubts, Warning{Line: line, Text: fmt.Sprintf(format, args...)})
}

// Compile checks the tree of a rules file and reads the files of its lists, which are relative to the directory of path. source is the
// Source of the set. Errors are those of Parse. It is for packages of this module that translate other formats.
func Compile(path string, root *rulesfile.Node, source []byte, sections ...Section) (*Set, error) {
	var (
		c       = &compiler{path: path, sections: sections, lists: map[string]*valueList{}}
		r       = &Set{source: source, sections: rulesfile.NewSections()}
		version int
		answer  string
		others  bool           // another package has a section that is not empty
		later   []func() error // deferred: needs the lists, which may follow anywhere in the file
		none    = root.Wrong(`the key "rules" is missing, it should be a list of rules`)
	)
	after := func(key string, read func(*rulesfile.Node) error) rulesfile.Field {
		return rulesfile.Key(key, func(_, n *rulesfile.Node) error {
			later = append(later, func() error { return read(n) })
			return nil
		})
	}
	other := func(key string) rulesfile.Field {
		return rulesfile.Key(key, func(_, n *rulesfile.Node) error {
			others = others || !n.Empty()
			return r.sections.Add(key, n, sections...)
		})
	}
	err := root.Fields("a rules file",
		rulesfile.Number("version", &version, 1, 1),
		rulesfile.Word("answer", &answer, "strongest", "first"),
		rulesfile.Key("lists", func(_, n *rulesfile.Node) error { return c.readLists(n) }),
		after("rules", func(n *rulesfile.Node) (err error) {
			if n.EmptyList() {
				none = n.Wrong("rules is empty")
				return nil
			}
			r.rules, err = c.ruleList(n)
			return err
		}),
		after("bans", func(n *rulesfile.Node) error { return c.bans(n, r) }),
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
	case version == 0:
		return nil, root.Wrong(`the key "version" is missing, it should be "version: 1"`)
	case len(r.rules) == 0 && !others:
		return nil, none
	}
	for _, l := range c.lists {
		switch {
		case !l.used:
			c.doubt(l.line, "list %s is used by nothing. Leave it out", l.name)
		case !l.other && l.strays > 0:
			c.doubt(l.line, "list %s is used for ip only, and %d of its values never match, because they are no addresses, first %s. "+
				"Write addresses such as 192.0.2.1, or networks such as 10.0.0.0/8", l.name, l.strays, l.stray)
		}
	}
	r.first, r.lists, r.files, r.doubts = answer == "first", c.lists, c.files, c.doubts
	r.seal(c.contents)
	return r, nil
}

func (c *compiler) ruleList(n *rulesfile.Node) (rules []rule, err error) {
	named := map[string]bool{}
	err = n.List("rules", func(n *rulesfile.Node) error {
		r, err := c.rule(n)
		switch {
		case err != nil:
			return err
		case named[r.Name]:
			return n.Wrong("a second rule is called %q, names should be unique", r.Name)
		case len(rules) == maxRules:
			return n.Wrong("there are more than %d rules", maxRules)
		}
		named[r.Name] = true
		rules = append(rules, r)
		return nil
	})
	return rules, err
}

// readLists reads lists by name, each from a file or from inline values.
func (c *compiler) readLists(n *rulesfile.Node) error {
	return n.Pairs("lists", func(at, n *rulesfile.Node) error {
		name := at.Name()
		switch {
		case !plainName(name):
			return at.Wrong("%q is no name of a list, it should be "+names.Length+" of A-Z a-z 0-9 _ . -", name)
		case c.lists[name] != nil:
			return at.Wrong("lists has %q twice", name)
		case len(c.lists) == maxLists:
			return at.Wrong("there are more than %d lists", maxLists)
		}
		var file, values *rulesfile.Node
		l := newList(name)
		err := n.Fields("a list",
			rulesfile.Key("file", func(_, n *rulesfile.Node) error { file = n; return nil }),
			rulesfile.Key("values", func(_, n *rulesfile.Node) error {
				values = n
				return n.List("values", func(n *rulesfile.Node) error {
					text, err := valueOf(n, "a value")
					if err != nil {
						return err
					}
					if problem := l.add(text, c.path, n.Line()); problem != "" {
						return n.Wrong("%s", problem)
					}
					c.misread(n, text)
					return nil
				})
			}),
		)
		switch {
		case err != nil:
			return err
		case (file == nil) == (values == nil):
			return n.Wrong("list %q should have either file or values, such as {file: lists/%s.txt}", name, name)
		case file != nil:
			l, err = c.listFile(name, file)
		}
		if err != nil {
			return err
		}
		l.line = at.Line()
		c.lists[name] = l
		return nil
	})
}

func (c *compiler) listFile(name string, n *rulesfile.Node) (*valueList, error) {
	path, err := n.Text("file")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(c.path), path)
	}
	content, err := bounded.File(path, maxListFile)
	if err != nil {
		return nil, n.Wrong("list %q cannot be read: %v", name, err)
	}
	c.files = append(c.files, path)
	c.contents = append(c.contents, content)
	l, err := parseList(path, name, content)
	if err == nil && len(content) == 0 {
		l.blankFile = path
	}
	return l, err
}

// bans reads the list of targets that are never banned.
func (c *compiler) bans(n *rulesfile.Node, r *Set) error {
	fields := append([]rulesfile.Field{rulesfile.Key("allow", func(_, n *rulesfile.Node) error {
		return n.OneOrMore("allow", func(n *rulesfile.Node) error {
			l, err := c.listNamed(n, "bans")
			if err == nil && l.none() {
				c.doubt(n.Line(), "list %s is empty and protects no one from bans. Fill it, or leave out bans.allow", l.name)
			}
			r.never = append(r.never, l)
			return err
		})
	})}, rulesfile.Others("run", "per_minute", "widest_v4", "widest_v6")...)
	if err := n.Fields("bans", fields...); err != nil {
		return err
	}
	return r.sections.Add("bans", n, c.sections...)
}
