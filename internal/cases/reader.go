package cases

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A reader reads the syntax tree of a file, so that every error names its place, and what would be right.
type reader struct{ file string }

func (r *reader) wrong(n ast.Node, format string, args ...any) error {
	at := n.GetToken().Position
	return fmt.Errorf("%s:%d:%d: %s", r.file, at.Line, at.Column, fmt.Sprintf(format, args...))
}

// line is that on which a node begins.
func line(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	return n.GetToken().Position.Line
}

func (r *reader) root(src []byte) (ast.Node, error) {
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			p := at.GetToken().Position
			return nil, fmt.Errorf("%s:%d:%d: not YAML: %s", r.file, p.Line, p.Column, at.GetMessage())
		}
		return nil, fmt.Errorf("%s: not YAML: %w", r.file, err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, fmt.Errorf(`%s: should be one document, with "cases:" and a list of them`, r.file)
	}
	return file.Docs[0].Body, nil
}

// mapping returns the values of a mapping by their keys, which are all known. Without known keys any will do.
func (r *reader) mapping(n ast.Node, what string, known ...string) (map[string]ast.Node, error) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, r.wrong(n, "%s should be a map", what)
	}
	fields := map[string]ast.Node{}
	for entries := m.MapRange(); entries.Next(); {
		key := entries.Key().GetToken().Value
		if len(known) > 0 && !slices.Contains(known, key) {
			return nil, r.wrong(entries.Key(), "%s has no %q, it may have %s", what, key, strings.Join(known, ", "))
		}
		fields[key] = entries.Value()
	}
	return fields, nil
}

// text returns a scalar as it is written; "" where there is none.
func (r *reader) text(n ast.Node) (string, error) {
	switch n := n.(type) {
	case nil:
		return "", nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", r.wrong(n, "should be a text or a number, on one line")
}

func (r *reader) number(n ast.Node, name string, low, high int) (int, error) {
	text, err := r.text(n)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < low || number > high {
		return 0, r.wrong(n, "%s is %q, should be a whole number from %d to %d", name, text, low, high)
	}
	return number, nil
}

func (r *reader) duration(n ast.Node, name string) (time.Duration, error) {
	text, err := r.text(n)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, r.wrong(n, "%s is %q, should be a duration such as 10s, 1m or 24h", name, text)
	}
	return d, nil
}
