package live

import (
	"context"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// Sessions are the handlers for sessions of the page. They are safe for concurrent use once their fields are set.
type Sessions struct {
	Tokens   *auth.Tokens // nil: there are none, and nobody signs in
	Sessions *auth.Sessions
	Guard    *auth.Guard
}

type sessionView struct {
	_ struct{} `additionalProperties:"true"`

	Name      string     `json:"name" doc:"Name of the token; local: there are no tokens; empty: nobody has signed in"`
	Role      auth.Role  `json:"role" enum:",viewer,operator" doc:"Empty: nobody has signed in"`
	ExpiresAt *time.Time `json:"expires_at" doc:"null: there is no session"`
}

type sessionOutput struct {
	CacheControl string `header:"Cache-Control"`
	SetCookie    string `header:"Set-Cookie"`
	Body         sessionView
}

func viewSession(t *auth.Token, s *auth.Session) sessionView {
	return sessionView{Name: t.Name, Role: t.Role, ExpiresAt: jsontime.InstantOrNull(time.Unix(s.Expires, 0))}
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
			p.Detail = "The session has ended at this API, and may go on at others. Repeat to end it everywhere, or take its token out of TOKENS_FILE."
			p.Cause = errors.Join(errors.New("live: end a session"), err)
			return nil, p
		}
	}
	return &endOutput{CacheControl: "no-store"}, nil
}
