// Package errsummary combines the errors of many items into one error with a short text.
package errsummary

import "fmt"

// Join is errors.Join for the errors of many items: its text is that of the first error and the number of the others, because
// hundreds of items mostly fail for one reason. errors.Is and errors.As find all of them. Join may be repeated in a loop:
// err = Join(err, next).
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		switch s, ok := err.(*summary); { //nolint:errorlint // a wrapped summary keeps the text of its wrapper
		case ok:
			all = append(all, s.all...)
		case err != nil:
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &summary{all}
}

type summary struct{ all []error }

func (s *summary) Error() string {
	return fmt.Sprintf("%v (and %d more errors)", s.all[0], len(s.all)-1)
}

func (s *summary) Unwrap() []error { return s.all }
