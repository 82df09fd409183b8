package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// purposeOrder is the purpose of solutions that let a request pass the rules.
const purposeOrder = "order"

// challengePath is the path of challenges.
const challengePath = "/v1/captcha/challenge"

var challengeRoute = huma.Operation{
	OperationID: "captcha-challenge", Method: http.MethodGet, Path: challengePath, Summary: "A challenge to solve",
	Tags: []string{"CAPTCHA"}, Errors: []int{401, 403, 422, 429, 503},
}

// captchaParameter documents X-Captcha on routes whose handlers do not read it.
var captchaParameter = []*huma.Param{headerParameter(captchaField, "Solution of the challenge that a refusal with captcha_required named; good for one request")}

// A Charger charges requests, as an *admission.Gate does.
type Charger interface {
	Charge(ctx context.Context, req admission.Request) (admission.Decision, error)
}

type challengeInput struct {
	Purpose string `query:"purpose" required:"true" pattern:"^[a-z0-9-]{1,32}$" patternDescription:"1 to 32 of a-z 0-9 -" doc:"What the solution is to open: order, or what the url of a challenge says"`
	For     string `query:"for" maxLength:"512" doc:"From the url of a challenge: whom it is for. Without it the challenge is for the caller's own orders"`
}

// challengeBody is what all providers' pages need. The fields of altcha are those of its protocol, version 1.
type challengeBody struct {
	_ struct{} `additionalProperties:"true"`

	Provider string `json:"provider" enum:"altcha,turnstile,hcaptcha,recaptcha"`

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

// challenges registers the route. On the public listener it has its own limit, and the rules apply.
func (a *API) challenges(docs huma.API, public bool) {
	if a.captcha == nil {
		return
	}
	op := challengeRoute
	op.Middlewares = huma.Middlewares{a.only(auth.ForServices)}
	if public {
		op.Middlewares = huma.Middlewares{a.challengeCharged}
	}
	huma.Register(docs, op, a.challenge)
}

// challengeCharged charges requests for challenges. They count as solved: a rule that challenges them would make solving
// impossible.
func (a *API) challengeCharged(ctx huma.Context, next func(huma.Context)) {
	r := request.Of(ctx.Context())
	req := a.RequestOf(r)
	req.Solved = true
	err := a.limitCaptcha(ctx.Context(), r, req)
	if err == nil {
		var d admission.Decision
		if d, err = a.chargeOnce(ctx.Context(), req); err == nil {
			admissionhttp.WriteFields(r.Header, &d)
			err = denial(&d)
		}
	}
	if err != nil {
		a.errors.Fail(humaecho.Unwrap(ctx), err)
		return
	}
	next(ctx)
}

// SolutionRoute is the route under which CaptchaLimit counts solutions before they are verified. Otherwise thousands of invalid
// solutions would each cause a call to an external provider, which would finally refuse to answer.
const SolutionRoute = "/x-captcha"

// limitCaptcha charges CaptchaLimit, which is independent of the rules. Only refusals write header fields.
func (a *API) limitCaptcha(ctx context.Context, r *request.Info, req admission.Request) error {
	if a.captchaLimit == nil {
		return nil
	}
	d, err := a.captchaLimit(ctx, req)
	if err == nil && !d.Admitted {
		admissionhttp.WriteFields(r.Header, &d)
		err = denied(&d)
	}
	return err
}

func (a *API) challenge(ctx context.Context, in *challengeInput) (*challengeOutput, error) {
	b, err := a.bindingFor(ctx, in)
	if err != nil {
		return nil, err
	}
	c, err := a.captcha.Challenge(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &challengeOutput{CacheControl: "no-store", Body: challengeBody{Provider: c.Provider}}
	if err := json.Unmarshal(c.JSON, &out.Body); err != nil {
		return nil, fmt.Errorf("httpapi: challenge of %s: %w", c.Provider, err)
	}
	return out, nil
}

// bindingFor returns what a challenge is to be bound to.
func (a *API) bindingFor(ctx context.Context, in *challengeInput) (captcha.Binding, error) {
	if in.For == "" {
		if in.Purpose != purposeOrder {
			return captcha.Binding{}, problem.InvalidAt("query.for", "is missing; only a challenge of purpose order can do without")
		}
		req := a.RequestOf(request.Of(ctx))
		return a.orderBinding(&req), nil
	}
	b, err := a.openContext(in.For)
	switch {
	case err != nil:
		return b, problem.InvalidAt("query.for", err.Error())
	case b.Purpose != in.Purpose:
		return b, problem.InvalidAt("query.purpose", "is not that of for")
	}
	return b, nil
}

// ChallengeFor returns where to get the challenge for b. Nil: there are none.
func (a *API) ChallengeFor(b captcha.Binding) *problem.ChallengeView {
	if a.captcha == nil {
		return nil
	}
	q := url.Values{"purpose": {b.Purpose}, "for": {a.sealContext(b)}}
	return &problem.ChallengeView{Provider: a.captcha.Name(), URL: challengePath + "?" + q.Encode()}
}

// orderBinding returns what a solution for req is bound to: the user, or without one the address, as rules count callers. The
// amount of work is the same for all callers, because neighbours in one network share an address.
func (a *API) orderBinding(req *admission.Request) captcha.Binding {
	kind, value := "user", req.User
	if value == "" {
		kind, value = "ip", netaddr.Address(req.IP)
	}
	b := captcha.Binding{Purpose: purposeOrder, Subject: a.keys[0].Hash("captcha subject", kind, value)}
	if len(a.keys) > 1 {
		b.PreviousSubject = a.keys[1].Hash("captcha subject", kind, value)
	}
	return b
}

// verifyCaptcha returns nil if token is a solution for b. Otherwise it returns the problem, with a new challenge if one helps.
func (a *API) verifyCaptcha(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error {
	err := a.captcha.Verify(ctx, token, b, ip)
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
	p.Challenge = a.ChallengeFor(b)
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
