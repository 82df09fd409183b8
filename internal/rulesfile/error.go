package rulesfile

import "fmt"

// An Error is an error at one place of a rules file. Its text begins with file:line:column, which editors recognize, and ends with
// what would be right. Parse of package rules returns it wrapped: use errors.As.
type Error struct {
	File         string // of a rule that a program made: its name, such as `rule "api"`
	Line, Column int    // from 1; 0 if the error concerns the whole file
	Problem      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}

// A Place is where a Node was written.
type Place interface {
	// Wrong returns the *Error about a problem at the place.
	Wrong(problem string) error
	// Line is from 1; 0 if the place has none.
	Line() int
}

// A position is the Place of a node in a file.
type position struct {
	file         string
	line, column int
}

func (p position) Wrong(problem string) error {
	return &Error{File: p.file, Line: p.line, Column: p.column, Problem: problem}
}

func (p position) Line() int { return p.line }
