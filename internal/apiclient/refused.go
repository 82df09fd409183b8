package apiclient

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/input"
)

// Refused is a response that reports no success.
type Refused struct {
	problem.Problem // as far as the body has one

	Response *http.Response // its body was read
}

// refused returns the error for a response.
func refused(r Response) *Refused {
	e := &Refused{Response: r.Response}
	_ = json.Unmarshal(r.Body, &e.Problem) // on error the status remains
	return e
}

// Error returns a line, and one more for each thing that is wrong with the request. Texts of the server give no orders to a terminal.
func (e *Refused) Error() string {
	req, status := e.Response.Request, e.Response.StatusCode
	text := input.Harmless(fmt.Sprintf("%s %s: %d %s", req.Method, req.URL, status, cmp.Or(e.Title, http.StatusText(status))))
	if e.Detail != "" {
		text += ": " + input.Harmless(e.Detail)
	}
	for _, v := range e.Errors {
		at := v.Location
		if v.File != "" {
			at = fmt.Sprintf("%s:%d:%d", v.File, v.Line, v.Column)
		}
		text += "\n" + input.Harmless(at+": "+v.Message)
	}
	return text
}

// HasStatus reports whether err is a refusal with that status.
func HasStatus(err error, status int) bool {
	e, ok := errors.AsType[*Refused](err)
	return ok && e.Response.StatusCode == status
}

// HasReason reports whether err is a refusal with that reason.
func HasReason(err error, reason string) bool {
	e, ok := errors.AsType[*Refused](err)
	return ok && e.Reason == reason
}
