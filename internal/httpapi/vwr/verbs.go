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
	private         bool // on the internal listener only, and optional
}

var (
	eventID   = field{"event_id", huma.TypeString, "Name of the room", false}
	requestID = field{"request_id", huma.TypeString, "What assign_queue_num answered", false}
)

const (
	noStore    = "no-store"
	forASecond = "max-age=1"
)

// Verbs are all of them.
var Verbs = []Verb{
	{
		"POST", "assign_queue_num", "Get a place", false, auth.ForServices, true,
		(*Handlers).assign,
		[]field{eventID},
		assigned{},
		[]int{400},
		noStore,
	},
	{
		"GET", "queue_num", "The position of a place; 202 before the draw", false, auth.ForServices, false,
		(*Handlers).queueNum,
		[]field{eventID, requestID},
		queueNumber{},
		[]int{202, 400},
		noStore,
	},
	{
		"GET", "serving_num", "Positions that have had their turn", false, auth.ForReaders, false,
		(*Handlers).servingNum,
		[]field{eventID},
		servingCounter{},
		[]int{400},
		forASecond,
	},
	{
		"GET", "waiting_num", "How many wait", false, auth.ForReaders, false,
		(*Handlers).waitingNum,
		[]field{eventID},
		waitingNumber{},
		[]int{400},
		forASecond,
	},
	{
		"GET", "queue_pos_expiry", "Seconds until the turn lapses; 202 before it, 410 after it", false, auth.ForServices, false,
		(*Handlers).queuePosExpiry,
		[]field{eventID, requestID},
		expiry{},
		[]int{202, 400, 404, 410},
		noStore,
	},
	{
		"POST", "generate_token", "Claim the turn, for tokens; 202 before it, 410 after it; again: the same tokens", false, auth.ForServices, false,
		(*Handlers).generateToken,
		[]field{
			eventID, requestID,
			{"issuer", huma.TypeString, "Claim iss; default: that of passes", true},
			{"validity_period", huma.TypeInteger, "Seconds from the first call, at most as long as the pass; default: as long", true},
		},
		tokens{},
		[]int{202, 400, 410},
		noStore,
	},
	{
		"GET", "public_key", "The key that tokens are verified with, as a JWK", false, auth.ForReaders, false,
		(*Handlers).publicKey,
		[]field{eventID},
		rooms.KeyView{},
		[]int{400},
		"max-age=300",
	},
	{
		"POST", "increment_serving_counter", "Give turns besides the rate; a negative number is 422", true, auth.ForOperators, false,
		(*Handlers).increment,
		[]field{eventID, {"increment_by", huma.TypeInteger, "0 to 1000000", false}},
		incremented{},
		[]int{400},
		noStore,
	},
	{
		"POST", "update_session", "End a place: 1 done, -1 abandoned; 404 if it has ended, or has no tokens to be done with", true, auth.ForServices, false,
		(*Handlers).updateSession,
		[]field{eventID, requestID, {"status", huma.TypeInteger, "1 or -1", false}},
		nothing{},
		[]int{400, 404},
		noStore,
	},
	{
		"GET", "num_active_tokens", "Admitted places whose tokens are valid", true, auth.ForReaders, false,
		(*Handlers).numActiveTokens,
		[]field{eventID},
		activeTokens{},
		[]int{400},
		noStore,
	},
	{
		"GET", "expired_tokens", "The request ids whose tokens have expired, at most 10000, the newest first", true, auth.ForServices, false,
		(*Handlers).expiredTokens,
		[]field{eventID},
		[]string{},
		[]int{400},
		noStore,
	},
	{
		"POST", "reset_initial_state", "Refused: make a new room", true, auth.ForOperators, false,
		(*Handlers).reset,
		[]field{eventID},
		nothing{},
		[]int{400},
		noStore,
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
		schema := &huma.Schema{Type: f.kind, Description: f.doc}
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
