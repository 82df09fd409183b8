package apidocs

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

const (
	problemType = "application/problem+json"
	csvType     = "text/csv"
)

// fields are the header fields of answers that callers must obey or can use, by name. Operations declare which of them they send
// besides those that complete adds; what they say of a field otherwise is replaced.
var fields = map[string]*huma.Header{
	"Cache-Control":        field("Whether caches may keep the answer; no-store on every refusal"),
	"Content-Disposition":  field("A name for the file"),
	"ETag":                 field("Of the content. Sent as If-None-Match, it gets 304 while that is the same"),
	"Idempotency-Replayed": field("true: the order stood before this request"),
	"Link":                 field("turn_required: the waiting room, as rel=\"related\""),
	"Location":             field("What was made, or where to look for it"),
	"RateLimit": field("What is left of each window of the rules that counted the request, such as \"orders\";r=3;t=21 " +
		"(draft-ietf-httpapi-ratelimit-headers-11)"),
	"RateLimit-Policy": field("These windows, such as \"orders\";q=10;w=60"),
	"Retry-After": {
		Schema:      &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)},
		Description: "Seconds from which on the same request makes sense again",
	},
	"Set-Cookie":         field("The session of the page, or its end"),
	"WWW-Authenticate":   field("How to authenticate, and for a JWT that is refused error=\"invalid_token\""),
	"X-Admission-Status": field("With deny=403: the status of the refusal"),
	"X-Request-Id":       field("Of the request, as sent or made; it stands in the server's log"),
	"X-User-ID":          field("The user, for the service behind the gateway"),
}

func field(doc string) *huma.Header {
	return &huma.Header{Schema: &huma.Schema{Type: huma.TypeString}, Description: doc}
}

// Fields declares fields of a response by their names.
func Fields(r *huma.Response, names ...string) *huma.Response {
	if r.Headers == nil {
		r.Headers = map[string]*huma.Header{}
	}
	for _, name := range names {
		r.Headers[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return r
}

// ProblemResponse documents a response that is a problem.
func ProblemResponse(status int) *huma.Response {
	return &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{
		problemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}},
	}}
}

// complete adds to all operations what middleware does to their answers, so that no route can forget it: the problems with which
// it answers in place of the operation, internal errors, problems of requests that are not as the document has them, and header fields.
func complete(described *huma.OpenAPI, refusals func(path string, op *huma.Operation) []int) {
	described.Components.Headers = fields
	described.Components.Responses = map[string]*huma.Response{}
	problem := func(name, description string, response *huma.Response) *huma.Response {
		if described.Components.Responses[name] == nil {
			response.Description = description
			described.Components.Responses[name] = Fields(response, "Cache-Control", "X-Request-Id", "RateLimit", "RateLimit-Policy")
		}
		return &huma.Response{Ref: "#/components/responses/" + name}
	}
	for path, item := range described.Paths {
		for _, op := range Operations(item) {
			for _, status := range refusals(path, op) {
				if code := strconv.Itoa(status); op.Responses[code] == nil {
					op.Responses[code] = ProblemResponse(status)
				}
			}
			for _, status := range slices.Collect(maps.Keys(op.Responses)) {
				r := op.Responses[status]
				Fields(r, slices.Collect(maps.Keys(r.Headers))...)
				if r.Content[problemType] != nil {
					Fields(r, refusalFields[status]...)
				}
				if len(r.Content) == 1 && r.Content[problemType] != nil && r.Headers["Set-Cookie"] == nil {
					op.Responses[status] = problem("Problem"+status, r.Description, r)
					continue
				}
				Fields(r, "Cache-Control", "X-Request-Id")
				if r.Content[csvType] != nil {
					Fields(r, "Content-Disposition")
				}
				if r.Headers["ETag"] != nil {
					op.Responses["304"] = Fields(&huma.Response{Description: http.StatusText(http.StatusNotModified)},
						slices.Collect(maps.Keys(r.Headers))...)
				}
			}
			internal := strconv.Itoa(http.StatusInternalServerError)
			if r := op.Responses[internal]; r == nil {
				op.Responses[internal] = problem("Problem500", http.StatusText(http.StatusInternalServerError),
					ProblemResponse(http.StatusInternalServerError))
			} else if r.Ref == "" {
				r.Content[problemType] = ProblemResponse(http.StatusInternalServerError).Content[problemType]
			}
			op.Responses["default"] = problem("Problem", "The request is not as this document has it", ProblemResponse(http.StatusBadRequest))
		}
	}
}

// refusalFields are the further fields of refusals, by status.
var refusalFields = map[string][]string{
	"401": {"WWW-Authenticate"},
	"403": {"Retry-After", "Link", "X-Admission-Status", "WWW-Authenticate"},
	"409": {"Retry-After"},
	"429": {"Retry-After"},
	"503": {"Retry-After"},
}
