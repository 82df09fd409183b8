package rehearse

import (
	"errors"
	"fmt"
)

// OptionErrors collects errors about options, so that all of them are reported at once. The zero value is ready to use. Not safe
// for concurrent use.
type OptionErrors struct{ all []error }

// Add adds an error about one or several options; the text states what would be right, and the value given.
func (e *OptionErrors) Add(option, format string, args ...any) {
	e.all = append(e.all, fmt.Errorf("%w %s %s", ErrOption, option, fmt.Sprintf(format, args...)))
}

// Share is an option that must be from 0 to 1.
type Share struct {
	Option string
	Value  float64
}

// CheckShares adds an error for each share out of range, and reports whether there was none.
func (e *OptionErrors) CheckShares(shares ...Share) (ok bool) {
	before := len(e.all)
	for _, s := range shares {
		if !(s.Value >= 0 && s.Value <= 1) { // also NaN
			e.Add(s.Option, "must be a share from 0 to 1, got %g", s.Value)
		}
	}
	return len(e.all) == before
}

// Err returns all errors joined; nil if there are none. Each wraps ErrOption.
func (e *OptionErrors) Err() error { return errors.Join(e.all...) }
