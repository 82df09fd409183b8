// Package httpproblem writes the problems (RFC 9457) with which the middleware for importers' servers refuses requests. The problems of
// Tidegate's own API are in internal/httpapi/problem: they have more members, and are described in the OpenAPI document.
package httpproblem

import (
	"encoding/json"
	"net/http"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// A Problem is a refusal. Title is set by Write.
type Problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Reason           string   `json:"reason"`
	Position         int      `json:"position,omitempty"` // in a queue, from 1
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Write answers with p, which no cache may keep.
func (p Problem) Write(w http.ResponseWriter) error {
	p.Title = http.StatusText(p.Status)
	body, _ := json.Marshal(p) // strings and numbers: cannot fail
	w.Header()["Content-Type"] = []string{ContentType}
	w.Header()["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(p.Status)
	_, err := w.Write(body)
	return err
}
