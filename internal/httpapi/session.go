package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	sessionPath   = "/session"
	sessionCookie = "tidegate_session"
	sessionLife   = 12 * time.Hour
	sessionUse    = "session"
)

// Sessions stores for all processes which sessions have ended before they expired.
type Sessions interface {
	End(ctx context.Context, id string, left time.Duration) error
	Ended(ctx context.Context, id string) (bool, error)
}

// A session is the content of the page's cookie, sealed: a browser has it instead of a token. It is valid until it expires, its
// token is removed, or it is ended.
type session struct {
	ID      string `json:"i"`
	Token   string `json:"t"` // keyed hash
	Host    string `json:"h"` // host under which the browser reached this API
	Expires int64  `json:"e"` // Unix seconds
}

// begin makes a session for a token.
func (a *API) begin(t *token, host string) (sealed string, s session) {
	s = session{ID: rand.Text(), Token: sessionToken(a.keys[0], t), Host: strings.ToLower(host), Expires: time.Now().Add(sessionLife).Unix()}
	return a.seal(sessionUse, s), s
}

func sessionToken(key []byte, t *token) string {
	return keyedHash(key, "session token", string(t.hash[:]))
}

// sessionOf returns the session that a request's cookie holds, and its token.
func (a *API) sessionOf(r *http.Request) (s session, found token, ok bool) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil || a.tokens == nil {
		return s, found, false
	}
	key := a.unseal(sessionUse, cookie.Value, &s)
	if key == nil || time.Now().Unix() >= s.Expires || a.ended.has(r.Context(), s.ID) {
		return s, found, false
	}
	known := *a.tokens.known.Load()
	i := slices.IndexFunc(known, func(t token) bool { return sessionToken(key, &t) == s.Token })
	if i < 0 {
		return s, found, false
	}
	return s, known[i], true
}

// endedSessions are those that ended before they expired. Sessions that this process ended stay ended even while the shared
// store is unreachable.
type endedSessions struct {
	shared Sessions // nil: there are no other processes

	mu  sync.Mutex
	own map[string]time.Time // guarded by mu; by id, when each would have expired
}

// askSessionsWithin is how long a request of the page waits for the shared store.
const askSessionsWithin = 200 * time.Millisecond

func (e *endedSessions) has(ctx context.Context, id string) bool {
	e.mu.Lock()
	_, ended := e.own[id]
	e.mu.Unlock()
	if ended || e.shared == nil {
		return ended
	}
	ctx, cancel := context.WithTimeout(ctx, askSessionsWithin)
	defer cancel()
	ended, err := e.shared.Ended(ctx, id)
	return err == nil && ended // the page must work while the store is down: it shows what is broken
}

func (e *endedSessions) add(ctx context.Context, s *session) error {
	now, until := time.Now(), time.Unix(s.Expires, 0)
	e.mu.Lock()
	if e.own == nil {
		e.own = map[string]time.Time{}
	}
	for id, over := range e.own {
		if over.Before(now) {
			delete(e.own, id)
		}
	}
	e.own[s.ID] = until
	e.mu.Unlock()
	if e.shared == nil {
		return nil
	}
	return e.shared.End(ctx, s.ID, until.Sub(now))
}

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

// sessions registers the routes. Without tokens there is no sign-in.
func (a *API) sessions(docs huma.API) {
	huma.Register(docs, sessionRoute, a.session)
	if a.tokens != nil {
		huma.Register(docs, beginRoute, a.beginSession)
		huma.Register(docs, endRoute, a.endSession)
	}
}

type sessionView struct {
	_ struct{} `additionalProperties:"true"`

	Name      string     `json:"name" doc:"Name of the token; local: there are no tokens; empty: nobody has signed in"`
	Role      Role       `json:"role" enum:",viewer,operator" doc:"Empty: nobody has signed in"`
	ExpiresAt *time.Time `json:"expires_at" doc:"null: there is no session"`
}

type sessionOutput struct {
	CacheControl string `header:"Cache-Control"`
	SetCookie    string `header:"Set-Cookie"`
	Body         sessionView
}

func viewSession(t *token, s *session) sessionView {
	return sessionView{Name: t.name, Role: t.role, ExpiresAt: instantOrNull(time.Unix(s.Expires, 0))}
}

func (a *API) session(ctx context.Context, _ *struct{}) (*sessionOutput, error) {
	out := &sessionOutput{CacheControl: "no-store"}
	if a.tokens == nil {
		out.Body = sessionView{Name: actorLocal, Role: RoleOperator}
	} else if s, found, ok := a.sessionOf(requestOf(ctx).http); ok && found.role.may(forViewers) {
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
	r := requestOf(ctx).http
	found, err := a.findToken(r, in.Body.Token)
	if errors.Is(err, errUnauthenticated) {
		p := problem(reasonUnauthenticated)
		p.Detail = "This token is not known here."
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	if !found.role.may(forViewers) {
		return nil, wrongRole(found.role, forViewers)
	}
	sealed, s := a.begin(&found, r.Host)
	return &sessionOutput{CacheControl: "no-store", SetCookie: cookieOf(r, sealed, sessionLife), Body: viewSession(&found, &s)}, nil
}

type endOutput struct {
	CacheControl string `header:"Cache-Control"`
}

func (a *API) endSession(ctx context.Context, _ *struct{}) (*endOutput, error) {
	r := requestOf(ctx)
	r.header.Set("Set-Cookie", cookieOf(r.http, "", -time.Second)) // even if other processes cannot be notified
	if s, _, ok := a.sessionOf(r.http); ok {
		if err := a.ended.add(context.WithoutCancel(ctx), &s); err != nil {
			p := problem(reasonStoreUnavailable)
			p.Detail = "The session has ended at this API, and may go on at others. Repeat to end it everywhere, or take its token out of TOKENS_FILE."
			p.cause = errors.Join(errors.New("httpapi: end a session"), err)
			return nil, p
		}
	}
	return &endOutput{CacheControl: "no-store"}, nil
}

func cookieOf(r *http.Request, value string, life time.Duration) string {
	return (&http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: behindTLS(r),
	}).String()
}

// behindTLS reports whether the browser used https. A client that claims so wrongly gets a cookie that it will not send.
func behindTLS(r *http.Request) bool {
	proto, _, _ := strings.Cut(cmp.Or(r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Scheme")), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(proto), "https") || strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https://")
}
