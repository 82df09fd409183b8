package admit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// Modes of admit other than charging.
const (
	modeCheck  = "check"
	modeRefund = "refund"
	modeReset  = "reset"
)

// atOnce is how many requests of one batch are decided concurrently: enough to share round trips, few enough to leave room for
// others.
const atOnce = 32

// Decisions are the handlers that decide requests. They are safe for concurrent use once their fields are set.
type Decisions struct {
	Gate    charge.Gate
	Charger interface {
		// Decide charges a request. A denial is not an error.
		Decide(ctx context.Context, req admission.Request) (admission.Decision, error)
	}
	Errors request.ErrorWriter
}

// Routes are the routes of decisions.
func (h *Decisions) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "admit", Method: http.MethodPost, Path: "/v1/admit", Summary: "Decide a request; a denial is an answer, too",
				Tags:         tagDecisions,
				MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 413, 415, 422, 503},
			},
			Roles: auth.ForServices,
		}, h.Admit),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "admit-batch", Method: http.MethodPost, Path: "/v1/admit/batch", Summary: "Decide up to 100 requests, each by itself",
				Tags: tagDecisions, MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422},
			},
			Roles: auth.ForServices,
		}, h.Batch),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "explain", Method: http.MethodGet, Path: "/v1/explain", Summary: "Where a caller stands in every rule; nothing is charged",
				Tags: tagDecisions, Errors: []int{401, 403, 422, 503}, RejectUnknownQueryParameters: true,
			},
			Roles: auth.ForReaders,
		}, h.Explain),
	}
}

var tagDecisions = []string{"Decisions"}

type subject struct {
	User    string  `json:"user,omitempty" maxLength:"255" doc:"Empty: no user is named"`
	IP      *string `json:"ip,omitempty" maxLength:"255" doc:"Of the client. Only the first 64 bits of an IPv6 address count"`
	Device  string  `json:"device,omitempty" maxLength:"255"`
	Session string  `json:"session,omitempty" maxLength:"255"`
}

// An admitRequest is a request that a service asks to have decided.
type admitRequest struct {
	Subject    subject    `json:"subject,omitempty"`
	Attributes attributes `json:"attributes,omitempty" doc:"route, method and tier, and whatever else the rules look at by name"`
	Cost       int        `json:"cost,omitempty" minimum:"1" maximum:"1000000" default:"1" doc:"Units"`
	Mode       string     `json:"mode,omitempty" enum:"charge,check,refund,reset" default:"charge" doc:"check counts nothing; refund takes back what the charge with this request_id and subject counted; reset, for operators, forgets what is counted of the subject"`
	RequestID  string     `json:"request_id,omitempty" minLength:"1" maxLength:"255" doc:"Within a minute the same id of the same subject is charged once and gets the same answer, after a refund too: a new attempt has a new id"`
	Rule       string     `json:"rule,omitempty" maxLength:"64" doc:"reset: this rule only"`
}

type admitInput struct{ Body admitRequest }

type admitOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         decisionView
}

// Admit decides one request.
func (h *Decisions) Admit(ctx context.Context, in *admitInput) (*admitOutput, error) {
	req, err := in.Body.request("body")
	if err != nil {
		return nil, err
	}
	d, err := h.decide(ctx, &in.Body, req)
	if err != nil {
		return nil, err
	}
	return &admitOutput{CacheControl: "no-store", Body: viewDecision(&d)}, nil
}

type batchInput struct {
	Body struct {
		Requests []admitRequest `json:"requests" minItems:"1" maxItems:"100"`
	} `nameHint:"BatchRequest"`
}

type batchOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Decisions []outcome `json:"decisions" doc:"In the order of the requests"`
	} `nameHint:"Batch"`
}

// Batch decides the requests independently and concurrently, in no particular order. A request that cannot be decided does
// not affect the others. All requests are validated before anything is counted.
func (h *Decisions) Batch(ctx context.Context, in *batchInput) (*batchOutput, error) {
	asked := in.Body.Requests
	requests := make([]admission.Request, len(asked))
	for i := range asked {
		var err error
		if requests[i], err = asked[i].request(fmt.Sprintf("body.requests[%d]", i)); err != nil {
			return nil, err
		}
		if has := request.Of(ctx).Grant.Role; asked[i].Mode == modeReset && !has.May(auth.ForOperators) {
			return nil, auth.WrongRole(has, auth.ForOperators)
		}
	}
	out := &batchOutput{CacheControl: "no-store"}
	out.Body.Decisions = make([]outcome, len(asked))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range asked {
		g.Go(func() error {
			d, err := h.decide(ctx, &asked[i], requests[i])
			if err != nil {
				p := problem.Of(err)
				h.Errors.LogCause(ctx, p)
				out.Body.Decisions[i].problem = p
			} else {
				view := viewDecision(&d)
				out.Body.Decisions[i].decision = &view
			}
			return nil
		})
	}
	return out, g.Wait()
}

func (h *Decisions) decide(ctx context.Context, asked *admitRequest, req admission.Request) (admission.Decision, error) {
	switch asked.Mode {
	case modeCheck:
		return h.Gate.Check(ctx, req)
	case modeRefund:
		return h.Gate.RefundRequest(ctx, req)
	case modeReset:
		if has := request.Of(ctx).Grant.Role; !has.May(auth.ForOperators) {
			return admission.Decision{}, auth.WrongRole(has, auth.ForOperators)
		}
		return h.Gate.Reset(ctx, req, asked.Rule)
	}
	return h.Charger.Decide(ctx, req)
}

// request converts r for the gate. Locations in errors begin with at.
func (r *admitRequest) request(at string) (admission.Request, error) {
	req := admission.Request{
		User: r.Subject.User, Device: r.Subject.Device, Session: r.Subject.Session, Cost: r.Cost, ID: r.RequestID,
	}
	switch {
	case r.Mode == modeRefund && r.RequestID == "":
		return req, problem.InvalidAt(at+".request_id", "is required: a refund names the request_id of its charge")
	case r.Mode != modeReset && r.Rule != "":
		return req, problem.InvalidAt(at+".rule", "is allowed with mode reset only")
	}
	if r.Subject.IP != nil {
		var err error
		if req.IP, err = request.ParseAddress(*r.Subject.IP, at+".subject.ip"); err != nil {
			return req, err
		}
	}
	return req, r.Attributes.into(&req, at+".attributes")
}

// ownPlace are names that rules use for parts of the subject, so an attribute with such a name would be ignored.
var ownPlace = map[string]bool{"user": true, "ip": true, "device": true, "session": true, "caller": true, "network": true}

// into sets the request's fields for route, method and tier. Everything else stays an attribute.
func (given attributes) into(req *admission.Request, at string) error {
	for name, v := range given {
		switch {
		case name == "route" && v != "":
			route, err := routeAt(at+".route", "/"+strings.TrimPrefix(string(v), "/"))
			if err != nil {
				return err
			}
			req.Route = route
		case name == "method":
			req.Method = strings.ToUpper(string(v))
		case name == "tier":
			req.Tier = string(v)
		case ownPlace[name]:
			return problem.InvalidAt(at+"."+name, "must be sent in the subject")
		case name == "" || utf8.RuneCountInString(name) > maxAttributeName:
			return problem.InvalidAt(at, fmt.Sprintf("names must have 1 to %d characters", maxAttributeName))
		default:
			if req.Attributes == nil {
				req.Attributes = make(map[string]string, len(given))
			}
			req.Attributes[name] = string(v)
		}
	}
	return nil
}
