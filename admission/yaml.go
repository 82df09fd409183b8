package admission

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A source parses the syntax tree of one YAML file without reflection, so that every error has a position and says what would be right.
type source struct {
	file  string
	lists map[string]*valueList

	files    []string  // files of lists
	contents [][]byte  // contents of files
	idle     []Warning // about settings without effect
}

// Bounds of a rules file. The parser is recursive, and some of its work grows with the square of the input's length. Without bounds a
// file of one megabyte could take minutes or crash the process.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 1 << 17
	maxNesting = 100
)

// root parses src and returns its only document.
func (s *source) root(src []byte) (ast.Node, error) {
	if len(src) > maxSource {
		return nil, &RulesError{File: s.file, Problem: fmt.Sprintf("the file has %d bytes, at most %d are read", len(src), maxSource)}
	}
	tokens := lexer.Tokenize(string(src))
	if err := s.bound(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // mapping reports duplicates, with our error text
	if err != nil {
		problem := &RulesError{File: s.file, Problem: "not YAML: " + err.Error()}
		var at yaml.Error
		if errors.As(err, &at) {
			problem.Problem = "not YAML: " + at.GetMessage()
			problem.place(at.GetToken())
		}
		return nil, problem
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, s.wrong(doc.Body, "a second document begins here, a rules file is one")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &RulesError{File: s.file, Problem: `the file is empty, it should begin with "version: 1"`}
	}
	return body, nil
}

// bound rejects input that the parser would process too slowly or too deeply.
func (s *source) bound(tokens token.Tokens) error {
	depth, opened, line := 0, 0, 0 // depth: open brackets; opened: levels that one line opens without brackets
	for i, t := range tokens {
		if t.Position.Line != line {
			opened, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			opened++
		}
		problem := ""
		switch {
		case i == maxTokens:
			problem = "the file is too long: at most " + strconv.Itoa(maxTokens) + " words and signs are read, long lists should stand in files of their own"
		case max(depth, opened) > maxNesting:
			problem = "this is nested more than " + strconv.Itoa(maxNesting) + " levels deep"
		default:
			continue
		}
		e := &RulesError{File: s.file, Problem: problem}
		e.place(t)
		return e
	}
	return nil
}

// wrong returns an error about n.
func (s *source) wrong(n ast.Node, format string, args ...any) error {
	e := &RulesError{File: s.file, Problem: fmt.Sprintf(format, args...)}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the position of the mapping itself is its first colon
	}
	e.place(n.GetToken())
	return e
}

// line returns the line where n begins.
func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func (e *RulesError) place(t *token.Token) {
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
}

// A field is a valid key of a mapping, with the function that parses its value.
type field struct {
	key  string
	read func(key, value ast.Node) error
}

// mapping parses n key by key; what is its name in errors. Unknown and repeated keys are errors.
func (s *source) mapping(n ast.Node, what string, fields ...field) error {
	seen := make(map[string]bool, len(fields))
	return s.pairs(n, what, func(key string, at, value ast.Node) error {
		for _, f := range fields {
			if f.key != key {
				continue
			}
			if seen[key] {
				return s.wrong(at, "%s has %q twice", what, key)
			}
			seen[key] = true
			return f.read(at, value)
		}
		keys := make([]string, len(fields))
		for i, f := range fields {
			keys[i] = f.key
		}
		return s.wrong(at, "unknown key %q: %s has %s", key, what, strings.Join(keys, ", "))
	})
}

// pairs calls read for each key and value of the mapping n.
func (s *source) pairs(n ast.Node, what string, read func(key string, at, value ast.Node) error) error {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return s.wrong(n, "%s should be a mapping, such as {key: value}%s", what, found(n))
	}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return s.wrong(v.Key, "a key of %s should be a plain word", what)
		}
		if err := read(key.Value, key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// list calls read for each value of the list n.
func (s *source) list(n ast.Node, what string, read func(ast.Node) error) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return s.wrong(n, "%s should be a list%s", what, found(n))
	}
	if len(seq.Values) == 0 {
		return s.wrong(n, "%s is empty", what)
	}
	for _, v := range seq.Values {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// oneOrMore calls read for n, or for each of its values if it is a list.
func (s *source) oneOrMore(n ast.Node, what string, read func(ast.Node) error) error {
	if _, ok := n.(*ast.SequenceNode); ok {
		return s.list(n, what, read)
	}
	return read(n)
}

func (s *source) text(n ast.Node, what string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		if n.Value != "" {
			return n.Value, nil
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return "", s.wrong(n, `%s should be a text: put it in quotes, "%s"`, what, n.GetToken().Value)
	}
	return "", s.wrong(n, "%s should be a text%s", what, found(n))
}

// number parses a whole number from low to high.
func (s *source) number(n ast.Node, what string, low, high int) (int, error) {
	if n, ok := n.(*ast.IntegerNode); ok {
		value := int64(math.MaxInt64)
		switch v := n.Value.(type) {
		case int64:
			value = v
		case uint64:
			if v < math.MaxInt64 {
				value = int64(v)
			}
		}
		if int64(low) <= value && value <= int64(high) {
			return int(value), nil
		}
	}
	if low == high {
		return 0, s.wrong(n, "%s should be %d%s", what, low, found(n))
	}
	return 0, s.wrong(n, "%s should be a whole number from %d to %d%s", what, low, high, found(n))
}

func (s *source) boolean(n ast.Node, what string) (bool, error) {
	if n, ok := n.(*ast.BoolNode); ok {
		return n.Value, nil
	}
	return false, s.wrong(n, "%s should be true or false%s", what, found(n))
}

// found describes n for an error about what was expected.
func found(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return ", here is nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "; anchors, aliases and tags are not read, write the value itself"
	case *ast.MappingNode, *ast.MappingValueNode:
		return ", here is a mapping"
	case *ast.SequenceNode:
		return ", here is a list"
	case ast.ScalarNode:
		if t := n.GetToken(); t != nil {
			return fmt.Sprintf(", here is %.40q", t.Value)
		}
	}
	return ""
}
