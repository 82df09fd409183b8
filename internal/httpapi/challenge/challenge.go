package challenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/netaddr"
	"github.com/tidegate/tidegate/internal/seal"
)

// Purposes of solutions: to let a request pass the rules, and to join a waiting room.
const (
	purposeOrder = "order"
	purposeRoom  = "waiting-room"
)

// Path is the path of challenges.
const Path = "/v1/captcha/challenge"

// SolutionField is the header field of a solution.
const SolutionField = "X-Captcha"

// Handlers hands out challenges, and verifies their solutions. It is safe for concurrent use once its fields are set.
type Handlers struct {
	Provider captcha.Provider
	Keys     seal.Keys // sign what a challenge is for
	Proxies  auth.Proxies
}

// Routes is the route of challenges.
func (h *Handlers) Routes() []route.Route {
	return []route.Route{route.Of(route.Route{
		Operation: huma.Operation{
			OperationID: "captcha-challenge", Method: http.MethodGet, Path: Path, Summary: "A challenge to solve",
			Tags: []string{"CAPTCHA"}, Errors: []int{401, 403, 422, 429, 503},
		},
		Public: route.Solving, Roles: auth.ForServices,
	}, h.Challenge)}
}

type challengeInput struct {
	Purpose string `query:"purpose" required:"true" pattern:"^[a-z0-9-]{1,32}$" patternDescription:"1 to 32 of a-z 0-9 -" doc:"What the solution is to open: order, or the purpose in the url of a challenge"`
	For     string `query:"for" maxLength:"512" doc:"From the url of a challenge: whom it is for. Without it the challenge is for the caller's own orders"`
}

// challengeBody is what all providers' pages need. The fields of altcha are those of its protocol, version 1.
type challengeBody struct {
	_ struct{} `additionalProperties:"true"`

	Provider problem.Provider `json:"provider"`

	Algorithm string `json:"algorithm,omitempty" doc:"altcha"`
	Challenge string `json:"challenge,omitempty" doc:"altcha"`
	MaxNumber int64  `json:"maxNumber,omitempty" doc:"altcha"`
	Salt      string `json:"salt,omitempty" doc:"altcha"`
	Signature string `json:"signature,omitempty" doc:"altcha"`

	SiteKey string `json:"sitekey,omitempty" doc:"The others: what their script is to be given"`
	Action  string `json:"action,omitempty" doc:"Turnstile, reCAPTCHA v3: likewise"`
	CData   string `json:"cdata,omitempty" doc:"Turnstile: likewise"`
}

type challengeOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         challengeBody
}

// Challenge returns a new challenge.
func (h *Handlers) Challenge(ctx context.Context, in *challengeInput) (*challengeOutput, error) {
	b, err := h.bindingFor(ctx, in)
	if err != nil {
		return nil, err
	}
	c, err := h.Provider.Challenge(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &challengeOutput{CacheControl: "no-store", Body: challengeBody{Provider: problem.Provider(c.Provider)}}
	if err := json.Unmarshal(c.JSON, &out.Body); err != nil {
		return nil, fmt.Errorf("challenge: %s: %w", c.Provider, err)
	}
	return out, nil
}

// bindingFor returns what a challenge is to be bound to.
func (h *Handlers) bindingFor(ctx context.Context, in *challengeInput) (captcha.Binding, error) {
	if in.For == "" {
		if in.Purpose != purposeOrder {
			return captcha.Binding{}, problem.InvalidAt("query.for", "is required unless purpose is order")
		}
		req := request.Of(ctx).Admission(h.Proxies)
		return h.OrderBinding(&req), nil
	}
	b, err := h.openContext(in.For)
	switch {
	case err != nil:
		return b, problem.InvalidAt("query.for", err.Error())
	case b.Purpose != in.Purpose:
		return b, problem.InvalidAt("query.purpose", "must be the purpose that for was made for")
	}
	return b, nil
}

// ChallengeFor returns where to get the challenge for b. A nil receiver has none, and returns nil.
func (h *Handlers) ChallengeFor(b captcha.Binding) *problem.ChallengeView {
	if h == nil {
		return nil
	}
	q := url.Values{"purpose": {b.Purpose}, "for": {h.sealContext(b)}}
	return &problem.ChallengeView{Provider: problem.Provider(h.Provider.Name()), URL: Path + "?" + q.Encode()}
}

// OrderBinding returns what a solution for req is bound to: the user, or without one the address, as rules count callers. The
// amount of work is the same for all callers, because neighbours in one network share an address.
func (h *Handlers) OrderBinding(req *admission.Request) captcha.Binding {
	return h.binding(purposeOrder, callerOf(req)...)
}

// RoomBinding returns what a solution for joining a waiting room is bound to: the room and the caller.
func (h *Handlers) RoomBinding(room string, req *admission.Request) captcha.Binding {
	return h.binding(purposeRoom, append(callerOf(req), room)...)
}

func callerOf(req *admission.Request) []string {
	if req.User != "" {
		return []string{"user", req.User}
	}
	return []string{"ip", netaddr.Address(req.IP)}
}

func (h *Handlers) binding(purpose string, subject ...string) captcha.Binding {
	b := captcha.Binding{Purpose: purpose, Subject: h.Keys[0].Hash("captcha subject", subject...)}
	if len(h.Keys) > 1 {
		b.PreviousSubject = h.Keys[1].Hash("captcha subject", subject...)
	}
	return b
}

// Verify returns nil if token is a solution for b. Otherwise it returns the problem, with a new challenge if one helps.
func (h *Handlers) Verify(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error {
	err := h.Provider.Verify(ctx, token, b, ip)
	var no *captcha.RefusedError
	p := problem.New(string(admission.CaptchaRequired))
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no):
		p.Detail = refusedSolutions[no.Cause]
	case errors.Is(err, captcha.ErrFellBack):
		p.Detail = "Solutions like that in X-Captcha cannot be verified at the moment. Solve the new challenge."
	default:
		return err
	}
	p.Challenge = h.ChallengeFor(b)
	return p
}

// refusedSolutions are the details of refused solutions in X-Captcha.
var refusedSolutions = map[captcha.Cause]string{
	captcha.CauseMalformed: "X-Captcha is no solution of a challenge.",
	captcha.CauseWrong:     "X-Captcha does not solve the challenge.",
	captcha.CauseExpired:   "The challenge that X-Captcha solves has expired.",
	captcha.CauseForeign:   "X-Captcha solves a challenge of another caller or purpose.",
	captcha.CauseUsed:      "X-Captcha has been used.",
}
