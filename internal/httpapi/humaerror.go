package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/strictjson"
)

const maxViolations = 16

// wrongType matches the error of encoding/json for a number that has a fraction or an exponent, or does not fit; Huma's
// validation finds all other errors first.
var wrongType = regexp.MustCompile(`^json: cannot unmarshal (\w+(?: \S+)?) into Go struct field (?:\w*\.)?(\S+) of type (\w+)`)

var typeWords = map[string]string{"int": "an integer", "int64": "an integer", "string": "a string", "bool": "true or false"}

func init() {
	// Huma has one constructor of errors for a whole program.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem(status, message, errs)
	}
	huma.DefaultArrayNullable = false // no list is null: not in requests, see strictjson, and in answers it is empty
	huma.ValidateStrictCasing = true  // otherwise "Item" would be accepted for "item"
	// Print bounds as integers, not as 3.16e+11.
	validation.MsgExpectedMinimumNumber, validation.MsgExpectedMaximumNumber = "expected number >= %.0f", "expected number <= %.0f"
}

func humaProblem(status int, message string, errs []error) *problem.Problem {
	if status == http.StatusInternalServerError && len(errs) == 1 {
		if strings.HasPrefix(message, "cannot read") { // the client disconnected, or its framing is broken
			status = http.StatusUnprocessableEntity
		} else {
			return problem.Of(errs[0])
		}
	}
	p := problem.New(problem.OfStatus(status))
	if p.Reason != problem.Invalid {
		return p
	}
	for _, err := range errs {
		if len(p.Errors) == maxViolations {
			break
		}
		v := problem.Violation{Location: "body", Message: message}
		var detailed huma.ErrorDetailer
		if errors.As(err, &detailed) {
			d := detailed.ErrorDetail()
			v = problem.Violation{Location: input.Shortened(d.Location), Message: input.Shortened(d.Message)}
			if list, ok := d.Value.([]any); ok && strings.HasPrefix(d.Message, "expected array length") {
				v.Message += fmt.Sprintf(", got %d", len(list))
			} else if at, message, ok := strings.Cut(d.Message, strictjson.Separator); ok {
				v = problem.Violation{Location: input.Shortened(at), Message: message}
			} else if m := wrongType.FindStringSubmatch(d.Message); m != nil {
				v = problem.Violation{
					Location: input.Shortened(d.Location + "." + m[2]),
					Message:  input.Shortened("is " + m[1] + ", and must be " + typeWords[m[3]]),
				}
			} else if strings.HasPrefix(d.Message, "json: ") {
				v.Message = "has an invalid value"
			}
		}
		p.Errors = append(p.Errors, v)
	}
	if len(p.Errors) == 0 {
		p.Errors = []problem.Violation{{Location: "body", Message: message}}
	}
	return p
}
