package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

const sessionPath = "/session"

var (
	sessionTags  = []string{"Page"}
	sessionRoute = huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: sessionPath, Summary: "Who looks at the page, by its cookie", Tags: sessionTags,
		Security: []map[string][]string{},
	}
	beginRoute = huma.Operation{
		OperationID: "begin-session", Method: http.MethodPost, Path: sessionPath,
		Summary: "Take a token once, for a cookie that holds for 12 hours: HttpOnly, SameSite=Strict, and Secure behind TLS", Tags: sessionTags,
		Security: []map[string][]string{}, MaxBodyBytes: maxBody + 1, Errors: []int{401, 403, 408, 413, 415, 422, 429},
	}
	endRoute = huma.Operation{
		OperationID: "end-session", Method: http.MethodDelete, Path: sessionPath, Summary: "End the cookie's session, also again", Tags: sessionTags,
		Security: []map[string][]string{}, DefaultStatus: http.StatusNoContent, Errors: []int{403, 503},
	}
)

// signIn registers the routes of sessions. Without tokens there is no sign-in.
func (a *API) signIn(docs huma.API) {
	huma.Register(docs, sessionRoute, a.session)
	if a.tokens != nil {
		huma.Register(docs, beginRoute, a.beginSession)
		huma.Register(docs, endRoute, a.endSession)
	}
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

func (a *API) session(ctx context.Context, _ *struct{}) (*sessionOutput, error) {
	out := &sessionOutput{CacheControl: "no-store"}
	if a.tokens == nil {
		out.Body = sessionView{Name: actorLocal, Role: auth.RoleOperator}
	} else if s, found, ok := a.sessions.Of(request.Of(ctx).HTTP); ok && found.Role.May(auth.ForViewers) {
		out.Body = viewSession(&found, &s)
	}
	return out, nil
}

type beginInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" doc:"Of a viewer or an operator"`
	} `nameHint:"SessionRequest"`
}

func (a *API) beginSession(ctx context.Context, in *beginInput) (*sessionOutput, error) {
	r := request.Of(ctx).HTTP
	found, err := a.guard.FindToken(r, in.Body.Token)
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
	cookie, s := a.sessions.Begin(r, &found)
	return &sessionOutput{CacheControl: "no-store", SetCookie: cookie, Body: viewSession(&found, &s)}, nil
}

type endOutput struct {
	CacheControl string `header:"Cache-Control"`
}

func (a *API) endSession(ctx context.Context, _ *struct{}) (*endOutput, error) {
	r := request.Of(ctx)
	r.Header.Set("Set-Cookie", auth.NoCookie(r.HTTP)) // even if other processes cannot be notified
	if s, _, ok := a.sessions.Of(r.HTTP); ok {
		if err := a.sessions.End(context.WithoutCancel(ctx), &s); err != nil {
			p := problem.New(problem.StoreUnavailable)
			p.Detail = "The session has ended at this API, and may go on at others. Repeat to end it everywhere, or take its token out of TOKENS_FILE."
			p.Cause = errors.Join(errors.New("httpapi: end a session"), err)
			return nil, p
		}
	}
	return &endOutput{CacheControl: "no-store"}, nil
}
