package rulesfile

import "fmt"

// An Error is an error at one place of a rules file. Its text begins with file:line:column, which editors recognize, and ends with
// what would be right. Parse of package rules returns it wrapped: use errors.As.
type Error struct {
	File         string
	Line, Column int // from 1; 0 if the error concerns the whole file
	Problem      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}
