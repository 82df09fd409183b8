package httpapi

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

const (
	maxViolations = 16
	maxQuoted     = 200 // bytes of a caller's input that a response repeats
)

// wrongType matches the error of encoding/json for a number that has a fraction or an exponent, or does not fit; Huma's
// validation finds all other errors first.
var wrongType = regexp.MustCompile(`^json: cannot unmarshal (\w+(?: \S+)?) into Go struct field (?:\w*\.)?(\S+) of type (\w+)`)

var typeWords = map[string]string{"int": "an integer", "int64": "an integer", "string": "a string", "bool": "true or false"}

func init() {
	// Huma has one constructor of errors for a whole program.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem(status, message, errs)
	}
	huma.ValidateStrictCasing = true // otherwise "Item" would be accepted for "item"
	// Print bounds as integers, not as 3.16e+11.
	validation.MsgExpectedMinimumNumber, validation.MsgExpectedMaximumNumber = "expected number >= %.0f", "expected number <= %.0f"
}

func humaProblem(status int, message string, errs []error) *Problem {
	if status == http.StatusInternalServerError && len(errs) == 1 {
		if strings.HasPrefix(message, "cannot read") { // the client disconnected, or its framing is broken
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
			if at, message, ok := strings.Cut(d.Message, misplacedAt); ok {
				v = Violation{Location: quoted(at), Message: message}
			} else if m := wrongType.FindStringSubmatch(d.Message); m != nil {
				v = Violation{Location: quoted(d.Location + "." + m[2]), Message: quoted("is " + m[1] + ", and must be " + typeWords[m[3]])}
			} else if strings.HasPrefix(d.Message, "json: ") {
				v.Message = "has an invalid value"
			}
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
