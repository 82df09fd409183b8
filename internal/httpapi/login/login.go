package login

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/login"
)

// Throttle is what the handlers need of a *login.Throttle.
type Throttle interface {
	Reserve(ctx context.Context, a login.Attempt) (login.Decision, error)
	Check(ctx context.Context, a login.Attempt) (login.Decision, error)
	Report(ctx context.Context, a login.Attempt) (login.Decision, error)
	Settle(ctx context.Context, id string, result login.Result) (login.Settled, error)

	RuleStates(ctx context.Context, s login.Subject) ([]login.RuleState, error)
	Banned(s login.Subject) (ban bans.Ban, left time.Duration, ok bool)
	Lift(ctx context.Context, s login.Subject) error
	Reference(name string) (string, error)
}

// Handlers are the handlers for failed logins. They share one receiver, because all but one need the throttle.
type Handlers struct {
	Login      Throttle
	History    History             // nil: no history
	Settled    func(result string) // called for every outcome
	Challenges interface {
		// ChallengeFor returns where to get the challenge for b. Nil: there are none.
		ChallengeFor(b captcha.Binding) *problem.ChallengeView
	}
}

// Routes are the routes for failed logins.
func (h *Handlers) Routes() []route.Route {
	tag := []string{"Login"}
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "login-attempt", Method: http.MethodPost, Path: "/v1/login/attempts",
				Summary: "Whether somebody may try to log in; asked before the password is checked", Tags: tag,
				MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 503},
			},
			Roles: auth.ForServices,
		}, h.AttemptLogin),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "login-outcome", Method: http.MethodPost, Path: "/v1/login/attempts/{id}/outcome",
				Summary: "How an attempt ended; within 30 seconds, else it has failed", Tags: tag,
				MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
			},
			Roles: auth.ForServices,
		}, h.SettleLogin),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "login-subjects", Method: http.MethodGet, Path: "/v1/login/subjects",
				Summary: "How a name or an address stands in every rule for failed logins, and with both what they did together", Tags: tag,
				Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForOperators,
		}, h.LoginSubject),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "lift-login-subject", Method: http.MethodDelete, Path: "/v1/login/subjects",
				Summary:       "Forget what has failed of a name or an address, with both also what they did together. A ban is lifted at /v1/bans",
				Tags:          tag,
				DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForOperators,
		}, h.LiftLogin),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "login-history", Method: http.MethodGet, Path: "/v1/login/history",
				Summary: "What rules did about failed logins, the newest first, without names", Tags: tag, Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForViewers,
		}, h.ListLoginEvents),
	}
}

// Modes of an attempt; all others are reserved.
const (
	modeOnlyCheck = "check"
	modeReport    = "report"
)

type attemptInput struct {
	Body struct {
		Name      string `json:"name" minLength:"1" maxLength:"256" doc:"As it was typed. Whether there is such a user makes no difference"`
		IP        string `json:"ip" minLength:"1" maxLength:"255" doc:"Of the client. Only the first 64 bits of an IPv6 address count"`
		Device    string `json:"device,omitempty" doc:"The token that an earlier success gave this client. One that is worth nothing is like none"`
		Factor    string `json:"factor,omitempty" default:"password" pattern:"^[a-z0-9_-]{1,32}$" patternDescription:"1 to 32 of a-z 0-9 _ -" doc:"What is tried, such as password, otp or reset: each is counted for itself. A success of reset, which means that the link of the mail was used, also clears the failures of password by this name from this address"`
		Captcha   string `json:"captcha,omitempty" doc:"A solution of the challenge that the last answer asked for"`
		Mode      string `json:"mode,omitempty" enum:"reserve,check,report" default:"reserve" doc:"reserve counts an attempt that is allowed; check counts nothing; report counts a failure that happened without an attempt"`
		RequestID string `json:"request_id,omitempty" minLength:"1" maxLength:"255" doc:"Within a minute the same id of the same attempt is counted once and gets the same answer"`
	} `nameHint:"LoginAttempt"`
}

type attemptView struct {
	_ struct{} `additionalProperties:"true"`

	AttemptID    string                 `json:"attempt_id,omitempty" doc:"Of an attempt that was reserved. A secret of the caller: whoever has it can report how the attempt ended"`
	Decision     login.Action           `json:"decision" enum:"allow,challenge,delay,deny" doc:"challenge: ask again with the solution; delay: wait, then ask again; deny: do not check the password"`
	Reason       login.Reason           `json:"reason" enum:",name_failures,name_ip_failures,ip_failures,names_per_ip,network_failures,device_failures,in_flight,banned,captcha_refused,too_many_solutions" doc:"Why it was not allowed; not to be shown to who tries to log in. Empty: it was"`
	RetryAfterMS int64                  `json:"retry_after_ms" doc:"When to ask again, or of a challenge, when none is needed any more; rounded up. 0: at once, or unknown"`
	Challenge    *problem.ChallengeView `json:"challenge,omitempty" doc:"Where the client gets the challenge that it has to solve"`
	Degraded     bool                   `json:"degraded,omitempty" doc:"The store does not answer: this process counts by itself, with half the limits"`
}

type attemptOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         attemptView
}

func (h *Handlers) AttemptLogin(ctx context.Context, in *attemptInput) (*attemptOutput, error) {
	b := &in.Body
	attempt := login.Attempt{Name: b.Name, Device: b.Device, Factor: b.Factor, Captcha: b.Captcha, ID: b.RequestID}
	var err error
	if attempt.IP, err = request.ParseAddress(b.IP, "body.ip"); err != nil {
		return nil, err
	}
	decide := h.Login.Reserve
	switch b.Mode {
	case modeOnlyCheck:
		decide = h.Login.Check
	case modeReport:
		decide = h.Login.Report
	}
	d, err := decide(ctx, attempt)
	if err != nil {
		return nil, nameAt("body.name", err)
	}
	out := &attemptOutput{CacheControl: "no-store", Body: attemptView{
		AttemptID: d.ID, Decision: d.Action, Reason: d.Reason, RetryAfterMS: response.CeilMS(d.RetryAfter), Degraded: d.Degraded,
	}}
	if d.Action == login.Challenge {
		out.Body.Challenge = h.Challenges.ChallengeFor(d.Challenge)
	}
	return out, nil
}

// nameAt adds the location to an error about a name. Everything else has been validated before.
func nameAt(location string, err error) error {
	if errors.Is(err, login.ErrInvalid) {
		return problem.InvalidAt(location, strings.TrimPrefix(problem.TextFor(err), "name "))
	}
	return err
}

type outcomeInput struct {
	ID   string `path:"id" doc:"attempt_id"`
	Body struct {
		Result login.Result `json:"result" enum:"success,failure,error" doc:"error: the outcome is unknown, and the attempt is not counted"`
	} `nameHint:"LoginOutcome"`
}

type outcomeView struct {
	_ struct{} `additionalProperties:"true"`

	Device string `json:"device,omitempty" doc:"For the client to keep, and to be sent with its next attempts by this name. Missing: it keeps the one it has. After a success of reset it is a token for password"`
}

type outcomeOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         outcomeView
}

func (h *Handlers) SettleLogin(ctx context.Context, in *outcomeInput) (*outcomeOutput, error) {
	settled, err := h.Login.Settle(ctx, in.ID, in.Body.Result)
	switch {
	case err == nil:
		h.Settled(string(in.Body.Result))
	case errors.Is(err, login.ErrLate):
		h.Settled("late")
	case errors.Is(err, login.ErrSettled):
		h.Settled("other")
	}
	if err != nil {
		return nil, err
	}
	return &outcomeOutput{CacheControl: "no-store", Body: outcomeView{Device: settled.Device}}, nil
}
