package rulesfile

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Wrong returns an error about n.
func (f *File) Wrong(n ast.Node, format string, args ...any) error {
	e := &Error{File: f.name, Problem: fmt.Sprintf(format, args...)}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the position of the mapping itself is its first colon
	}
	e.place(n.GetToken())
	return e
}

// Line returns the line where n begins.
func Line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func (e *Error) place(t *token.Token) {
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
}

// A Field is a valid key of a mapping, with the function that parses its value.
type Field struct {
	key  string
	read func(key, value ast.Node) error
}

// Key returns the Field of a key.
func Key(key string, read func(key, value ast.Node) error) Field { return Field{key, read} }

// Others returns the Fields of keys that another package parses.
func Others(keys ...string) []Field {
	all := make([]Field, len(keys))
	for i, key := range keys {
		all[i] = Key(key, func(_, _ ast.Node) error { return nil })
	}
	return all
}

// Mapping parses n key by key; what is its name in errors. Unknown and repeated keys are errors.
func (f *File) Mapping(n ast.Node, what string, fields ...Field) error {
	seen := make(map[string]bool, len(fields))
	return f.Pairs(n, what, func(key string, at, value ast.Node) error {
		for _, known := range fields {
			if known.key != key {
				continue
			}
			if seen[key] {
				return f.Wrong(at, "%s has %q twice", what, key)
			}
			seen[key] = true
			return known.read(at, value)
		}
		keys := make([]string, len(fields))
		for i, known := range fields {
			keys[i] = known.key
		}
		return f.Wrong(at, "unknown key %q: %s has %s", key, what, strings.Join(keys, ", "))
	})
}

// Pairs calls read for each key and value of the mapping n.
func (f *File) Pairs(n ast.Node, what string, read func(key string, at, value ast.Node) error) error {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return f.Wrong(n, "%s should be a mapping, such as {key: value}%s", what, Found(n))
	}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return f.Wrong(v.Key, "a key of %s should be a plain word", what)
		}
		if err := read(key.Value, key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// List calls read for each value of the list n.
func (f *File) List(n ast.Node, what string, read func(ast.Node) error) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return f.Wrong(n, "%s should be a list%s", what, Found(n))
	}
	if len(seq.Values) == 0 {
		return f.Wrong(n, "%s is empty", what)
	}
	for _, v := range seq.Values {
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// OneOrMore calls read for n, or for each of its values if it is a list.
func (f *File) OneOrMore(n ast.Node, what string, read func(ast.Node) error) error {
	if _, ok := n.(*ast.SequenceNode); ok {
		return f.List(n, what, read)
	}
	return read(n)
}
