package vwr

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// verb is one of the verbs.
type verb struct {
	method, name, summary string

	private bool        // on the internal listener only
	roles   []auth.Role // on the internal listener
	charges bool        // by itself

	answer   func(h *Handlers, ctx context.Context, in *call) (any, error)
	takes    []field
	answers  any // a value of the type of the 200 body
	failures []int
	cache    string
}

// field is a parameter, of the query of GET, and of the body of POST.
type field struct {
	name, kind, doc string
	most            *int // characters; nil: not bounded
	private         bool // on the internal listener only, and optional
}

var (
	eventID   = field{name: "event_id", kind: huma.TypeString, doc: "Name of the room"}
	requestID = field{name: "request_id", kind: huma.TypeString, doc: "What assign_queue_num answered"}
)

const (
	noStore    = "no-store"
	forASecond = "max-age=1"
)

// verbs are all of them.
var verbs = []verb{
	{
		method: "POST", name: "assign_queue_num", summary: "Get a place",
		roles: auth.ForServices, charges: true,
		answer: (*Handlers).assign, takes: []field{eventID},
		answers: assigned{}, failures: []int{400}, cache: noStore,
	},
	{
		method: "GET", name: "queue_num", summary: "The position of a place; 202 before the draw",
		roles:  auth.ForServices,
		answer: (*Handlers).queueNum, takes: []field{eventID, requestID},
		answers: queueNumber{}, failures: []int{202, 400}, cache: noStore,
	},
	{
		method: "GET", name: "serving_num", summary: "Positions that have had their turn",
		roles:  auth.ForReaders,
		answer: (*Handlers).servingNum, takes: []field{eventID},
		answers: servingCounter{}, failures: []int{400}, cache: forASecond,
	},
	{
		method: "GET", name: "waiting_num", summary: "How many wait",
		roles:  auth.ForReaders,
		answer: (*Handlers).waitingNum, takes: []field{eventID},
		answers: waitingNumber{}, failures: []int{400}, cache: forASecond,
	},
	{
		method: "GET", name: "queue_pos_expiry", summary: "Seconds until the turn lapses; 202 before it, 410 after it",
		roles:  auth.ForServices,
		answer: (*Handlers).queuePosExpiry, takes: []field{eventID, requestID},
		answers: expiry{}, failures: []int{202, 400, 404, 410}, cache: noStore,
	},
	{
		method: "POST", name: "generate_token", summary: "Claim the turn, for tokens; 202 before it, 410 after it; again: the same tokens",
		roles:  auth.ForServices,
		answer: (*Handlers).generateToken, takes: []field{
			eventID, requestID,
			{name: "issuer", kind: huma.TypeString, doc: "Claim iss: tidegate, or one of VWR_ISSUERS. Default: tidegate", private: true},
			{
				name: "validity_period", kind: huma.TypeInteger, doc: "Seconds from the first call, at most as long as the pass; default: as long",
				private: true,
			},
		},
		answers: tokens{}, failures: []int{202, 400, 410}, cache: noStore,
	},
	{
		method: "GET", name: "public_key", summary: "The key that tokens are verified with, as a JWK",
		roles:  auth.ForReaders,
		answer: (*Handlers).publicKey, takes: []field{eventID},
		answers: rooms.KeyView{}, failures: []int{400}, cache: "max-age=300",
	},
	{
		method: "POST", name: "increment_serving_counter", summary: "Give turns besides the rate; a negative number is 422",
		private: true, roles: auth.ForOperators,
		answer: (*Handlers).increment, takes: []field{eventID, {name: "increment_by", kind: huma.TypeInteger, doc: "0 to 1000000"}},
		answers: incremented{}, failures: []int{400}, cache: noStore,
	},
	{
		method: "POST", name: "update_session",
		summary: "End a place: 1 done, -1 abandoned; 404 if it has ended, or has no tokens to be done with",
		private: true, roles: auth.ForServices,
		answer: (*Handlers).updateSession, takes: []field{eventID, requestID, {name: "status", kind: huma.TypeInteger, doc: "1 or -1"}},
		answers: nothing{}, failures: []int{400, 404}, cache: noStore,
	},
	{
		method: "GET", name: "num_active_tokens", summary: "Admitted places whose tokens are valid",
		private: true, roles: auth.ForReaders,
		answer: (*Handlers).numActiveTokens, takes: []field{eventID},
		answers: activeTokens{}, failures: []int{400}, cache: noStore,
	},
	{
		method: "GET", name: "expired_tokens", summary: "The request ids whose tokens have expired, at most 10000, the newest first",
		private: true, roles: auth.ForServices,
		answer: (*Handlers).expiredTokens, takes: []field{eventID},
		answers: []string{}, failures: []int{400}, cache: noStore,
	},
	{
		method: "POST", name: "reset_initial_state", summary: "Refused: make a new room",
		private: true, roles: auth.ForOperators,
		answer: (*Handlers).reset, takes: []field{eventID},
		answers: nothing{}, failures: []int{400}, cache: noStore,
	},
}

// Routes are the routes of the verbs, without Huma, whose errors have another form.
func (h *Handlers) Routes(l *route.Listener) (all []route.Route) {
	for _, v := range verbs {
		if v.private && !l.Private {
			continue
		}
		r := route.Route{
			Operation: v.describe(l.Docs.OpenAPI().Components.Schemas, l.Private), Public: route.Charged, Roles: v.roles, ActsForUser: v.charges,
			Detail: auditDetail,
		}
		if v.charges && !l.Private {
			r.Public, r.Operation.Parameters = route.Open, append(r.Operation.Parameters, route.Captcha)
		}
		all = append(all, route.Plain(r, h.serve(v, l.Private)))
	}
	return all
}

// describe returns the verb for the OpenAPI document of a listener.
func (v *verb) describe(schemas huma.Registry, private bool) huma.Operation {
	content := func(of any, name string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeOf(of), true, name)}}
	}
	id := "vwr-" + strings.ReplaceAll(v.name, "_", "-")
	op := huma.Operation{
		OperationID: id, Method: v.method, Path: Path + "/" + v.name, Summary: v.summary, Tags: []string{"AWS Virtual Waiting Room"},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: content(v.answers, id)}},
	}
	for _, status := range v.failures {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content(failure{}, "vwr-failure")}
	}
	problems := []int{401, 403, 429, 503}
	if v.method == http.MethodPost {
		problems = append(problems, 408, 409, 413, 415, 422)
	}
	for _, status := range problems {
		if op.Responses[strconv.Itoa(status)] == nil {
			op.Responses[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
		}
	}
	body := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: true}
	for _, f := range v.takes {
		schema := &huma.Schema{Type: f.kind, MaxLength: f.most, Description: f.doc}
		switch {
		case f.private && !private:
		case v.method == http.MethodGet:
			op.Parameters = append(op.Parameters,
				&huma.Param{Name: f.name, In: "query", Required: true, Description: f.doc, Schema: &huma.Schema{Type: f.kind}})
		default:
			body.Properties[f.name] = schema
			if !f.private {
				body.Required = append(body.Required, f.name)
			}
		}
	}
	if v.method != http.MethodGet {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: body}}}
	}
	return op
}
