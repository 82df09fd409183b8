package vwr

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
)

// Verb is one of the verbs.
type Verb struct {
	Method, Name, summary string

	Private bool        // on the internal listener only
	Roles   []auth.Role // on the internal listener
	Charges bool        // by itself

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

// Verbs are all of them.
var Verbs = []Verb{
	{
		Method: "POST", Name: "assign_queue_num", summary: "Get a place",
		Roles: auth.ForServices, Charges: true,
		answer: (*Handlers).assign, takes: []field{eventID},
		answers: assigned{}, failures: []int{400}, cache: noStore,
	},
	{
		Method: "GET", Name: "queue_num", summary: "The position of a place; 202 before the draw",
		Roles:  auth.ForServices,
		answer: (*Handlers).queueNum, takes: []field{eventID, requestID},
		answers: queueNumber{}, failures: []int{202, 400}, cache: noStore,
	},
	{
		Method: "GET", Name: "serving_num", summary: "Positions that have had their turn",
		Roles:  auth.ForReaders,
		answer: (*Handlers).servingNum, takes: []field{eventID},
		answers: servingCounter{}, failures: []int{400}, cache: forASecond,
	},
	{
		Method: "GET", Name: "waiting_num", summary: "How many wait",
		Roles:  auth.ForReaders,
		answer: (*Handlers).waitingNum, takes: []field{eventID},
		answers: waitingNumber{}, failures: []int{400}, cache: forASecond,
	},
	{
		Method: "GET", Name: "queue_pos_expiry", summary: "Seconds until the turn lapses; 202 before it, 410 after it",
		Roles:  auth.ForServices,
		answer: (*Handlers).queuePosExpiry, takes: []field{eventID, requestID},
		answers: expiry{}, failures: []int{202, 400, 404, 410}, cache: noStore,
	},
	{
		Method: "POST", Name: "generate_token", summary: "Claim the turn, for tokens; 202 before it, 410 after it; again: the same tokens",
		Roles:  auth.ForServices,
		answer: (*Handlers).generateToken, takes: []field{
			eventID, requestID,
			{name: "issuer", kind: huma.TypeString, doc: "Claim iss: tidegate, or one of VWR_ISSUERS. Default: tidegate", private: true},
			{name: "validity_period", kind: huma.TypeInteger, doc: "Seconds from the first call, at most as long as the pass; default: as long", private: true},
		},
		answers: tokens{}, failures: []int{202, 400, 410}, cache: noStore,
	},
	{
		Method: "GET", Name: "public_key", summary: "The key that tokens are verified with, as a JWK",
		Roles:  auth.ForReaders,
		answer: (*Handlers).publicKey, takes: []field{eventID},
		answers: rooms.KeyView{}, failures: []int{400}, cache: "max-age=300",
	},
	{
		Method: "POST", Name: "increment_serving_counter", summary: "Give turns besides the rate; a negative number is 422",
		Private: true, Roles: auth.ForOperators,
		answer: (*Handlers).increment, takes: []field{eventID, {name: "increment_by", kind: huma.TypeInteger, doc: "0 to 1000000"}},
		answers: incremented{}, failures: []int{400}, cache: noStore,
	},
	{
		Method: "POST", Name: "update_session", summary: "End a place: 1 done, -1 abandoned; 404 if it has ended, or has no tokens to be done with",
		Private: true, Roles: auth.ForServices,
		answer: (*Handlers).updateSession, takes: []field{eventID, requestID, {name: "status", kind: huma.TypeInteger, doc: "1 or -1"}},
		answers: nothing{}, failures: []int{400, 404}, cache: noStore,
	},
	{
		Method: "GET", Name: "num_active_tokens", summary: "Admitted places whose tokens are valid",
		Private: true, Roles: auth.ForReaders,
		answer: (*Handlers).numActiveTokens, takes: []field{eventID},
		answers: activeTokens{}, failures: []int{400}, cache: noStore,
	},
	{
		Method: "GET", Name: "expired_tokens", summary: "The request ids whose tokens have expired, at most 10000, the newest first",
		Private: true, Roles: auth.ForServices,
		answer: (*Handlers).expiredTokens, takes: []field{eventID},
		answers: []string{}, failures: []int{400}, cache: noStore,
	},
	{
		Method: "POST", Name: "reset_initial_state", summary: "Refused: make a new room",
		Private: true, Roles: auth.ForOperators,
		answer: (*Handlers).reset, takes: []field{eventID},
		answers: nothing{}, failures: []int{400}, cache: noStore,
	},
}

// Operation is the id of a verb in the OpenAPI document.
func (v *Verb) Operation() string { return "vwr-" + strings.ReplaceAll(v.Name, "_", "-") }

// Describe returns the verb for the OpenAPI document of a listener, without the problems that come before it.
func (v *Verb) Describe(schemas huma.Registry, private bool) *huma.Operation {
	content := func(of any, name string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeOf(of), true, name)}}
	}
	op := &huma.Operation{
		OperationID: v.Operation(), Method: v.Method, Path: Path + "/" + v.Name, Summary: v.summary, Tags: []string{"AWS Virtual Waiting Room"},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: content(v.answers, v.Operation())}},
	}
	for _, status := range v.failures {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content(failure{}, "vwr-failure")}
	}
	body := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: true}
	for _, f := range v.takes {
		schema := &huma.Schema{Type: f.kind, MaxLength: f.most, Description: f.doc}
		switch {
		case f.private && !private:
		case v.Method == http.MethodGet:
			op.Parameters = append(op.Parameters, &huma.Param{Name: f.name, In: "query", Required: true, Description: f.doc, Schema: &huma.Schema{Type: f.kind}})
		default:
			body.Properties[f.name] = schema
			if !f.private {
				body.Required = append(body.Required, f.name)
			}
		}
	}
	if v.Method != http.MethodGet {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: body}}}
	}
	return op
}
