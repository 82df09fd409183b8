package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	maxViolations = 16
	maxQuoted     = 200 // bytes of a caller's own words that an answer repeats
)

func init() {
	// Huma has one constructor of errors for a whole program.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem(status, message, errs)
	}
	huma.ValidateStrictCasing = true // else "Item" would pass for "item"
}

func humaProblem(status int, message string, errs []error) *Problem {
	if status == http.StatusInternalServerError && len(errs) == 1 {
		if strings.HasPrefix(message, "cannot read") { // the client gave up, or broke its own framing
			status = http.StatusUnprocessableEntity
		} else {
			return problemOf(errs[0])
		}
	}
	p := problem(reasonOfStatus(status))
	if p.Reason != reasonInvalid {
		return p
	}
	for _, err := range errs {
		if len(p.Errors) == maxViolations {
			break
		}
		v := Violation{Location: "body", Message: message}
		var detailed huma.ErrorDetailer
		if errors.As(err, &detailed) {
			d := detailed.ErrorDetail()
			v = Violation{Location: quoted(d.Location), Message: quoted(d.Message)}
		}
		p.Errors = append(p.Errors, v)
	}
	if len(p.Errors) == 0 {
		p.Errors = []Violation{{Location: "body", Message: message}}
	}
	return p
}

func quoted(s string) string {
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return s
}
