package rulesfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The parser is recursive, and some of its work grows with the square of the input's length. Without bounds a
// file of one megabyte could take minutes or crash the process.
const (
	MaxSize    = 1 << 20 // bytes
	maxTokens  = 1 << 17
	maxNesting = 100
)

// Parse decodes src; name is that of the file in errors, which are *Error. The file has one document.
func Parse(name string, src []byte) (*Node, error) {
	if len(src) > MaxSize {
		return nil, &Error{File: name, Problem: fmt.Sprintf("the file has %d bytes, at most %d are read", len(src), MaxSize)}
	}
	f := file{name}
	tokens := lexer.Tokenize(string(src))
	if err := f.bound(tokens); err != nil {
		return nil, err
	}
	if err := f.encoded(src, tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // Fields reports duplicates, with our error text
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			return nil, f.at(at.GetToken()).Wrong("not YAML: " + at.GetMessage())
		}
		return nil, f.at(nil).Wrong("not YAML: " + err.Error())
	}
	var body *Node
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			return nil, f.node(doc.Body).Wrong("a second document begins here, a rules file is one")
		default:
			body = f.node(doc.Body)
		}
	}
	if body == nil {
		return nil, f.at(nil).Wrong(`the file is empty, it should begin with "version: 1"`)
	}
	return body, nil
}

// A file is one that is being decoded.
type file struct{ name string }

// at returns the place of t, which may be nil.
func (f file) at(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return position{file: f.name}
	}
	return position{f.name, t.Position.Line, t.Position.Column}
}

// node returns the tree of n.
func (f file) node(n ast.Node) *Node {
	made := &Node{Place: f.at(n.GetToken())}
	switch n := n.(type) {
	case *ast.MappingNode:
		made.kind = mapping
		for _, v := range n.Values {
			made.pairs = append(made.pairs, Pair{f.node(v.Key), f.node(v.Value)})
		}
		if !n.IsFlowStyle && len(n.Values) > 0 {
			made.Place = made.pairs[0].Key.Place // that of the mapping itself is its first colon
		}
	case *ast.MappingValueNode:
		made.kind, made.pairs = mapping, []Pair{{f.node(n.Key), f.node(n.Value)}}
	case *ast.SequenceNode:
		made.kind = list
		for _, v := range n.Values {
			made.items = append(made.items, f.node(v))
		}
	case *ast.StringNode:
		made.kind, made.text, made.plain = text, n.Value, n.GetToken().Type == token.StringType
	case *ast.IntegerNode:
		made.kind, made.text, made.number = integer, n.GetToken().Value, n.Value
	case *ast.FloatNode:
		made.kind, made.text = decimal, n.GetToken().Value
	case *ast.BoolNode:
		made.kind, made.text, made.is = boolean, n.GetToken().Value, n.Value
	case *ast.NullNode:
		made.kind = null
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		made.kind = reference
	default:
		made.kind = other
		if t := n.GetToken(); t != nil {
			made.text = t.Value
		}
	}
	return made
}

// encoded rejects texts that are not UTF-8, because the lexer replaces their bytes and they would never match. Comments may be in
// any encoding.
func (f file) encoded(src []byte, tokens token.Tokens) error {
	if utf8.Valid(src) {
		return nil
	}
	for _, t := range tokens {
		if t.Type != token.CommentType && strings.ContainsRune(t.Value, utf8.RuneError) {
			return f.at(t).Wrong(fmt.Sprintf("%.40q is not UTF-8, the file should be saved as UTF-8", t.Value))
		}
	}
	return nil
}

// bound rejects input that the parser would process too slowly or too deeply.
func (f file) bound(tokens token.Tokens) error {
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
			problem = "the file is too long: at most " + strconv.Itoa(maxTokens) + " words and signs are read, long lists should stand in files " +
				"of their own"
		case max(depth, opened) > maxNesting:
			problem = "this is nested more than " + strconv.Itoa(maxNesting) + " levels deep"
		default:
			continue
		}
		return f.at(t).Wrong(problem)
	}
	return nil
}
