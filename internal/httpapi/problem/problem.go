package problem

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/names"
)

// Problem is the body of every answer that is an error (RFC 9457).
type Problem struct {
	_ struct{} `additionalProperties:"true"`

	Type     string      `json:"type" doc:"What kind of problem it is; a relative one is a page of this server"`
	Title    string      `json:"title"`
	Status   int         `json:"status"`
	Reason   string      `json:"reason" doc:"The same in one word"`
	Detail   string      `json:"detail,omitempty"`
	Instance string      `json:"instance,omitempty" doc:"Identifies this occurrence in the server's log"`
	Errors   []Violation `json:"errors,omitempty" doc:"What is wrong with the request"`

	Free             *int           `json:"free,omitempty" doc:"not_enough: units left"`
	OrderID          string         `json:"order_id,omitempty" doc:"quota_per_buyer: an order that holds the units"`
	Position         int            `json:"position,omitempty" doc:"at_capacity of a semaphore: the place in its queue, from 1; it is not kept"`
	Room             RoomLink       `json:"room,omitempty" doc:"turn_required: where the waiting room is"`
	PollAfterMS      *int64         `json:"poll_after_ms,omitempty" doc:"not_your_turn: when to read the place again; 0: its state is final"`
	Challenge        *ChallengeView `json:"challenge,omitempty" doc:"captcha_required: solve it, and send the request again with the solution in X-Captcha"`
	ViolatedPolicies []string       `json:"violated-policies,omitempty" doc:"Names of the rules that refused, of those that are public"`

	Rule       string        `json:"-"` // that refused, for the page: callers only see public rules
	RetryAfter time.Duration `json:"-"`
	Token      bool          `json:"-"` // unauthenticated: the user's token is the reason (RFC 6750, invalid_token)
	Cause      error         `json:"-"` // for the log, never for the caller
}

// Violation is one thing that is wrong with a request.
type Violation struct {
	Location string `json:"location" example:"body.quantity"`
	Message  string `json:"message"`

	File   string `json:"file,omitempty" doc:"Of a rules file that does not load"`
	Line   int    `json:"line,omitempty" doc:"From 1"`
	Column int    `json:"column,omitempty" doc:"From 1"`
}

// Error returns the title. A Problem is returned as an error through the handlers.
func (p *Problem) Error() string { return p.Title }

// GetStatus returns the status of the response.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType replaces the negotiated type.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// New returns the problem of a reason.
func New(reason string) *Problem {
	k := kindOf[reason]
	if k == nil {
		return &Problem{
			Type: "/problems/internal", Title: "Something went wrong here", Status: 500, Reason: Internal,
			Cause: errors.New("problem: no kind for reason " + reason),
		}
	}
	return k.problem()
}

func (k *Kind) problem() *Problem {
	uri := k.Name
	if !strings.Contains(uri, ":") {
		uri = "/problems/" + uri
	}
	return &Problem{Type: uri, Title: k.Title, Status: k.Status, Reason: k.Reason, RetryAfter: k.Retry}
}

// A RoomLink is the path of a waiting room.
type RoomLink string

const rooms = "/v1/rooms/"

// RoomPath returns the path of a waiting room.
func RoomPath(name string) RoomLink { return RoomLink(rooms + name) }

// Schema implements huma.SchemaProvider.
func (RoomLink) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^" + rooms + strings.TrimPrefix(names.RoomOrLanePattern, "^")}
}

// Encoded returns the body. Problems without details, most refusals of a rush, are encoded only once.
func (p *Problem) Encoded() ([]byte, error) {
	if k := kindOf[p.Reason]; k != nil && p.Status == k.Status && p.Detail == "" && p.Instance == "" && p.Errors == nil &&
		p.Free == nil && p.OrderID == "" && p.Position == 0 && p.Room == "" && p.PollAfterMS == nil && p.Challenge == nil &&
		p.ViolatedPolicies == nil {
		return k.body, nil
	}
	return json.Marshal(p)
}

// InvalidAt returns the problem of a request that is invalid at a location, such as body.item.
func InvalidAt(location, message string) *Problem {
	p := New(Invalid)
	p.Errors = []Violation{{Location: location, Message: message}}
	return p
}

// Provider is the name of a provider of challenges.
type Provider string

// Schema implements huma.SchemaProvider.
func (Provider) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Enum: []any{captcha.Own}}
	for _, name := range captcha.Providers() {
		s.Enum = append(s.Enum, name)
	}
	return s
}

// ChallengeView describes where to get a challenge.
type ChallengeView struct {
	_ struct{} `additionalProperties:"true"`

	Provider Provider `json:"provider" doc:"Whose it is"`
	URL      string   `json:"url" doc:"GET it within 10 minutes. It is relative to the public listener"`
}
