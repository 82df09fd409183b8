package live

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// Sessions are the handlers for sessions of the page. They are safe for concurrent use once their fields are set.
type Sessions struct {
	Tokens   *auth.Tokens // nil: there are none, and signing in is impossible
	Sessions *auth.Sessions
	Guard    *auth.Guard
}

// SessionPath is the path of sessions.
const SessionPath = "/session"

var tagPage = []string{"Page"}

// Routes are the routes of sessions. Without tokens there is no sign-in.
func (h *Sessions) Routes() []route.Route {
	needless := []map[string][]string{} // no token
	all := []route.Route{route.Of(route.Route{
		Operation: huma.Operation{
			OperationID: "get-session", Method: http.MethodGet, Path: SessionPath, Summary: "Who looks at the page, by its cookie", Tags: tagPage,
			Security: needless,
		},
		Roles: auth.ForEverybody,
	}, h.Get)}
	if h.Tokens == nil {
		return all
	}
	return append(all,
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "begin-session", Method: http.MethodPost, Path: SessionPath,
				Summary: "Take a token once, for a cookie that holds for 12 hours: HttpOnly, SameSite=Strict, and Secure behind TLS", Tags: tagPage,
				Security: needless, MaxBodyBytes: request.MaxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 429},
			},
			Roles: auth.ForEverybody,
		}, h.Begin),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "end-session", Method: http.MethodDelete, Path: SessionPath, Summary: "End the cookie's session, also again",
				Tags:     tagPage,
				Security: needless, DefaultStatus: http.StatusNoContent, Errors: []int{403, 503},
			},
			Roles: auth.ForEverybody, Cookie: []int{http.StatusNoContent, http.StatusServiceUnavailable},
		}, h.End))
}

type sessionView struct {
	_ struct{} `additionalProperties:"true"`

	Name      string     `json:"name" doc:"Name of the token; local: there are no tokens; empty: not signed in"`
	Role      auth.Role  `json:"role" enum:",viewer,operator" doc:"Empty: not signed in"`
	ExpiresAt *time.Time `json:"expires_at" doc:"null: there is no session"`
}

type sessionOutput struct {
	CacheControl string `header:"Cache-Control"`
	SetCookie    string `header:"Set-Cookie"`
	Body         sessionView
}

func viewSession(t *auth.Token, s *auth.Session) sessionView {
	return sessionView{Name: t.Name, Role: t.Role, ExpiresAt: response.InstantOrNull(time.Unix(s.Expires, 0))}
}

// Get returns who has signed in.
func (h *Sessions) Get(ctx context.Context, _ *struct{}) (*sessionOutput, error) {
	out := &sessionOutput{CacheControl: "no-store"}
	if h.Tokens == nil {
		out.Body = sessionView{Name: request.LocalActor, Role: auth.RoleOperator}
	} else if s, found, ok := h.Sessions.Of(request.Of(ctx).HTTP); ok && found.Role.May(auth.ForViewers) {
		out.Body = viewSession(&found, &s)
	}
	return out, nil
}

type beginInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" doc:"Of a viewer or an operator"`
	} `nameHint:"SessionRequest"`
}

// Begin makes a session of a token.
func (h *Sessions) Begin(ctx context.Context, in *beginInput) (*sessionOutput, error) {
	r := request.Of(ctx).HTTP
	found, err := h.Guard.FindToken(r, in.Body.Token)
	if errors.Is(err, auth.ErrUnauthenticated) {
		p := problem.New(problem.Unauthenticated)
		p.Detail = "This token is not known here."
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	if !found.Role.May(auth.ForViewers) {
		return nil, auth.WrongRole(found.Role, auth.ForViewers)
	}
	cookie, s := h.Sessions.Begin(r, &found)
	return &sessionOutput{CacheControl: "no-store", SetCookie: cookie, Body: viewSession(&found, &s)}, nil
}

type endOutput struct {
	CacheControl string `header:"Cache-Control"`
}

// End ends the session of the cookie.
func (h *Sessions) End(ctx context.Context, _ *struct{}) (*endOutput, error) {
	r := request.Of(ctx)
	r.Header.Set("Set-Cookie", auth.NoCookie(r.HTTP)) // even if other processes cannot be notified
	if s, _, ok := h.Sessions.Of(r.HTTP); ok {
		if err := h.Sessions.End(context.WithoutCancel(ctx), &s); err != nil {
			p := problem.New(problem.StoreUnavailable)
			p.Detail = "The session has ended at this API, and may go on at others. Repeat to end it everywhere, or take its token out of " +
				"TOKENS_FILE."
			p.Cause = errors.Join(errors.New("live: end a session"), err)
			return nil, p
		}
	}
	return &endOutput{CacheControl: "no-store"}, nil
}
