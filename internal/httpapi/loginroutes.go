package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
)

var (
	attemptRoute = huma.Operation{
		OperationID: "login-attempt", Method: http.MethodPost, Path: "/v1/login/attempts",
		Summary: "Whether somebody may try to log in; asked before the password is checked", Tags: tagLogin,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 503},
	}
	outcomeRoute = huma.Operation{
		OperationID: "login-outcome", Method: http.MethodPost, Path: "/v1/login/attempts/{id}/outcome",
		Summary: "How an attempt ended; within 30 seconds, else it has failed", Tags: tagLogin,
		MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 404, 408, 409, 413, 415, 422, 503},
	}
	subjectsRoute = huma.Operation{
		OperationID: "login-subjects", Method: http.MethodGet, Path: "/v1/login/subjects",
		Summary: "How a name or an address stands in every rule for failed logins, and with both what they did together", Tags: tagLogin,
		Errors: []int{401, 403, 422, 503},
	}
	liftRoute = huma.Operation{
		OperationID: "lift-login-subject", Method: http.MethodDelete, Path: "/v1/login/subjects",
		Summary: "Forget what has failed of a name or an address, with both also what they did together. A ban is lifted at /v1/bans", Tags: tagLogin,
		DefaultStatus: http.StatusNoContent, Errors: []int{401, 403, 422, 503},
	}
	loginHistoryRoute = huma.Operation{
		OperationID: "login-history", Method: http.MethodGet, Path: "/v1/login/history",
		Summary: "What rules did about failed logins, the newest first; nobody is named", Tags: tagLogin, Errors: []int{401, 403, 422, 503},
	}
	challengeRoute = huma.Operation{
		OperationID: "captcha-challenge", Method: http.MethodGet, Path: challenge.Path, Summary: "A challenge to solve",
		Tags: []string{"CAPTCHA"}, Errors: []int{401, 403, 422, 429, 503},
	}

	tagLogin = []string{"Login"}
)

// registerLogins registers the routes for failed logins.
func (a *API) registerLogins(docs huma.API) {
	register(a, docs, auth.ForServices, attemptRoute, a.logins.AttemptLogin)
	register(a, docs, auth.ForServices, outcomeRoute, a.logins.SettleLogin)
	register(a, docs, auth.ForOperators, subjectsRoute, a.logins.LoginSubject)
	register(a, docs, auth.ForOperators, liftRoute, a.logins.LiftLogin)
	register(a, docs, auth.ForViewers, loginHistoryRoute, a.logins.ListLoginEvents)
}

// registerChallenges registers the route of challenges, if there are any.
func (a *API) registerChallenges(docs huma.API, middlewares huma.Middlewares) {
	if a.challenges == nil {
		return
	}
	op := challengeRoute
	op.Middlewares = middlewares
	huma.Register(docs, op, a.challenges.Challenge)
}

// captchaParameter documents X-Captcha on routes whose handlers do not read it.
var captchaParameter = []*huma.Param{headerParameter(challenge.SolutionField, "Solution of the challenge that a refusal with captcha_required named; good for one request")}
