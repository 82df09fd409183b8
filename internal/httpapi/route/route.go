// Package route describes endpoints beside their handlers, and registers them on listeners.
//
// A package of handlers returns its endpoints as routes. A route has the operation for the OpenAPI document, with the problems that may be
// its answer, who may call it on which listener, and the handler. Everything that depends on the listener is added here: the
// rules, the roles, the audit log, and their entries in the document.
package route

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
)

// Access is how the public listener serves a route.
type Access int

// How the public listener serves a route.
const (
	Nowhere Access = iota // it has no such route
	Open                  // to everybody; the handler may ask the rules by itself
	Charged               // to whom the rules let in
	Solving               // like Charged, and without a challenge, because the route is where challenges are
)

// A Route is an endpoint. Made by Of or Plain from one with the other fields.
type Route struct {
	Operation huma.Operation // Middlewares of its own run after those of the listener

	Public Access
	Roles  []auth.Role // of which the internal listener needs one; nil: it has no such route

	ActsForUser   bool         // the internal listener serves it on behalf of a user
	AuditOperator bool         // calls of operators are audited, although other roles may call it too
	Detail        string       // of Plain: key in the echo.Context of what the audit log stores
	Lasting       bool         // the answer takes long: it ends when the caller's token is no longer accepted
	Created       bool         // it answers 201 where it made something
	Cookie        []int        // statuses of answers that set a cookie by themselves
	Document      reflect.Type // of the value in an answer that is a *document.Output; nil: the answer is none

	// Of Plain.
	Bound   Bound                 // of answers at once
	Methods []string              // under which the document lists it, while all are served; nil: that of Operation
	Steps   []echo.MiddlewareFunc // run after those of the listener

	register func(r *Route, l *Listener, op huma.Operation) // r may have been changed since Of or Plain
}

// A Bound is how many answers of a route a listener gives at once. Zero: any number.
type Bound struct {
	Most       int // to all clients
	PerAddress int // to each address, on the public listener. On the internal one the shop's servers share few
}

// Of returns a route whose requests and answers Huma reads and writes, and describes in the document.
func Of[I, O any](r Route, handle func(context.Context, *I) (*O, error)) Route {
	r.register = func(r *Route, l *Listener, op huma.Operation) {
		handle := handle
		if r.Lasting {
			handle = whileAllowed(handle)
		}
		if l.Private {
			if r.AuditOperator {
				handle = auditedOf(l.Audit, op.OperationID, l.Audit.ByOperator, handle)
			}
			op.Middlewares = append(huma.Middlewares{l.only(r.Roles)}, op.Middlewares...)
			if r.changesForOperators() {
				handle = auditedOf(l.Audit, op.OperationID, always, handle)
				op.Middlewares = append(huma.Middlewares{auditRefused(l.Audit, op.OperationID)}, op.Middlewares...)
			}
		}
		if r.Document != nil {
			op.Responses = map[string]*huma.Response{"200": apidocs.Fields(&huma.Response{Content: map[string]*huma.MediaType{
				"application/json": {Schema: l.Docs.OpenAPI().Components.Schemas.Schema(r.Document, true, "")},
			}}, "ETag")}
		}
		huma.Register(l.Docs, op, handle)
		responses := apidocs.Operations(l.Docs.OpenAPI().Paths[op.Path])[op.Method].Responses
		for _, status := range r.Cookie {
			apidocs.Fields(responses[strconv.Itoa(status)], "Set-Cookie")
		}
		if r.Created {
			responses["201"] = &huma.Response{Description: "Created", Content: responses["200"].Content, Headers: responses["200"].Headers}
		}
	}
	return r
}

// Plain returns a route without Huma, which would buffer requests and answers and has its own errors. Its operation describes
// parameters and responses.
func Plain(r Route, handle echo.HandlerFunc) Route {
	r.register = func(r *Route, l *Listener, op huma.Operation) {
		var steps []echo.MiddlewareFunc
		if l.Private {
			if r.changesForOperators() {
				steps = append(steps, auditPlain(l.Audit, op.OperationID, r.Detail))
			}
			steps = append(steps, needs(r.Roles))
		} else if r.Public == Charged {
			steps = append(steps, l.Charger.EchoMiddleware)
		}
		if bound := r.Bound; bound.Most > 0 {
			if l.Private {
				bound.PerAddress = bound.Most
			}
			steps = append(steps, l.bounded(NewAtOnce(bound.Most, bound.PerAddress)))
		}
		if r.Lasting {
			steps = append(steps, lasting)
		}
		steps = append(steps, r.Steps...)
		pattern := Pattern(op.Path)
		if r.Methods == nil {
			l.Echo.Add(op.Method, pattern, handle, steps...)
			describe(l.Docs.OpenAPI(), op)
			return
		}
		l.Echo.Any(pattern, handle, steps...)
		for _, method := range r.Methods {
			one := op
			one.Method, one.OperationID = method, op.OperationID+"-"+method
			describe(l.Docs.OpenAPI(), one)
		}
	}
	return r
}

// describe adds an operation to a document, with responses of its own, because the document completes them.
func describe(described *huma.OpenAPI, op huma.Operation) {
	responses := make(map[string]*huma.Response, len(op.Responses))
	for status, r := range op.Responses {
		own := *r
		own.Headers, own.Content = maps.Clone(r.Headers), maps.Clone(r.Content)
		responses[status] = &own
	}
	op.Responses = responses
	described.AddOperation(&op)
}

// changesForOperators reports whether every call of a route is audited.
func (r *Route) changesForOperators() bool {
	return auth.OnlyOperators(r.Roles) && r.Operation.Method != http.MethodGet
}

// Pattern returns a path of the document in Echo's syntax. A parameter path at the end may have any number of segments.
func Pattern(path string) string {
	return strings.NewReplacer("{path}", "*", "{", ":", "}", "").Replace(path)
}

// TagOperating is the tag of routes for operators that have no other.
var TagOperating = []string{"Operating"}

// PathParameter documents a parameter of the path of a plain route.
func PathParameter(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: doc}
}

// HeaderParameter documents a header field of a request.
func HeaderParameter(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: doc}
}

// Parameters that middleware reads.
var (
	ForwardedFor = HeaderParameter("X-Forwarded-For",
		"Believed from TRUSTED_PROXIES only: the right-most address that is none of them is the client's. From others the connection's "+
			"address counts")
	Captcha = HeaderParameter("X-Captcha", "Solution of the challenge that a refusal with captcha_required named; good for one request")
)

// Content documents a response of content types whose text has no schema.
func Content(types ...string) *huma.Response {
	r := &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{}}
	for _, kind := range types {
		r.Content[kind] = &huma.MediaType{}
	}
	return r
}

// File documents a file that clients may keep and revalidate.
func File(types ...string) *huma.Response { return apidocs.Fields(Content(types...), "ETag") }

// Responses documents a response and the problems that may replace it.
func Responses(ok *huma.Response, problems ...int) map[string]*huma.Response {
	all := map[string]*huma.Response{"200": ok}
	for _, status := range problems {
		all[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
	}
	return all
}
