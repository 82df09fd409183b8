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

// A File parses the nodes of one file. It is immutable, so it is safe for concurrent use.
type File struct {
	name string
}

// New returns a File whose errors begin with name.
func New(name string) *File { return &File{name} }

// Bounds of a file. The parser is recursive, and some of its work grows with the square of the input's length. Without bounds a
// file of one megabyte could take minutes or crash the process.
const (
	MaxSize    = 1 << 20 // bytes
	maxTokens  = 1 << 17
	maxNesting = 100
)

// Root parses src and returns its only document.
func (f *File) Root(src []byte) (ast.Node, error) {
	if len(src) > MaxSize {
		return nil, &Error{File: f.name, Problem: fmt.Sprintf("the file has %d bytes, at most %d are read", len(src), MaxSize)}
	}
	tokens := lexer.Tokenize(string(src))
	if err := f.bound(tokens); err != nil {
		return nil, err
	}
	if err := f.encoded(src, tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // mapping reports duplicates, with our error text
	if err != nil {
		problem := &Error{File: f.name, Problem: "not YAML: " + err.Error()}
		var at yaml.Error
		if errors.As(err, &at) {
			problem.Problem = "not YAML: " + at.GetMessage()
			problem.place(at.GetToken())
		}
		return nil, problem
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, f.Wrong(doc.Body, "a second document begins here, a rules file is one")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Error{File: f.name, Problem: `the file is empty, it should begin with "version: 1"`}
	}
	return body, nil
}

// encoded rejects texts that are not UTF-8, because the lexer replaces their bytes and they would never match. Comments may be in any encoding.
func (f *File) encoded(src []byte, tokens token.Tokens) error {
	if utf8.Valid(src) {
		return nil
	}
	for _, t := range tokens {
		if t.Type != token.CommentType && strings.ContainsRune(t.Value, utf8.RuneError) {
			e := &Error{File: f.name, Problem: fmt.Sprintf("%.40q is not UTF-8, the file should be saved as UTF-8", t.Value)}
			e.place(t)
			return e
		}
	}
	return nil
}

// bound rejects input that the parser would process too slowly or too deeply.
func (f *File) bound(tokens token.Tokens) error {
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
		e := &Error{File: f.name, Problem: problem}
		e.place(t)
		return e
	}
	return nil
}
