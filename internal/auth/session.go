package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/seal"
)

// SessionCookie is the name of the page's cookie. Behind TLS it has the prefix __Host-, so that no other host or path can set one
// of this name.
const SessionCookie = "tidegate_session"

const hostPrefix = "__Host-"

const (
	sessionLife = 12 * time.Hour
	sessionUse  = "session"
)

// A SessionStore stores for all processes which sessions have ended before they expired.
type SessionStore interface {
	End(ctx context.Context, id string, left time.Duration) error
	Ended(ctx context.Context, id string) (bool, error)
}

// A Session is the content of the page's cookie, sealed: a browser has it instead of a token. It is valid until it expires, its
// token is removed, or it is ended.
type Session struct {
	ID      string `json:"i"`
	Token   string `json:"t"` // keyed hash
	Host    string `json:"h"` // host under which the browser reached this API
	Expires int64  `json:"e"` // Unix seconds
}

// Sessions begins and ends the sessions of the page. Sessions that this process ended stay ended even while the store is
// unreachable. Made by NewSessions; safe for concurrent use.
type Sessions struct {
	tokens *Tokens // nil: there are no sessions
	keys   seal.Keys
	store  SessionStore // nil: there are no other processes

	mu    sync.Mutex
	ended map[string]time.Time // guarded by mu; by id, when each would have expired
}

// NewSessions makes the sessions of some tokens. keys seal them.
func NewSessions(tokens *Tokens, keys seal.Keys, store SessionStore) *Sessions {
	return &Sessions{tokens: tokens, keys: keys, store: store}
}

// Begin makes a session for a token, and its cookie.
func (s *Sessions) Begin(r *http.Request, t *Token) (cookie string, begun Session) {
	begun = Session{
		ID: rand.Text(), Token: sessionToken(s.keys[0], t), Host: strings.ToLower(r.Host),
		Expires: time.Now().Add(sessionLife).Unix(),
	}
	return cookieOf(r, s.keys.Seal(sessionUse, begun), sessionLife), begun
}

func sessionToken(key seal.Key, t *Token) string {
	return key.Hash("session token", string(t.hash[:]))
}

// Of returns the session that a request's cookie holds, and its token. Other hosts of the domain can add cookies of the same
// name, so all are tried.
func (s *Sessions) Of(r *http.Request) (found Session, of Token, ok bool) {
	if s.tokens == nil {
		return found, of, false
	}
	for _, cookie := range slices.Concat(r.CookiesNamed(hostPrefix+SessionCookie), r.CookiesNamed(SessionCookie)) {
		if found, of, ok = s.of(r, cookie.Value); ok {
			return found, of, true
		}
	}
	return Session{}, Token{}, false
}

func (s *Sessions) of(r *http.Request, sealed string) (found Session, of Token, ok bool) {
	key := s.keys.Open(sessionUse, sealed, &found)
	if key == nil || time.Now().Unix() >= found.Expires || s.hasEnded(r.Context(), found.ID) {
		return found, of, false
	}
	known := *s.tokens.known.Load()
	i := slices.IndexFunc(known, func(t Token) bool { return sessionToken(key, &t) == found.Token })
	if i < 0 {
		return found, of, false
	}
	return found, known[i], true
}

// storeWithin is how long a request of the page waits for the store.
const storeWithin = time.Second

func (s *Sessions) hasEnded(ctx context.Context, id string) bool {
	s.mu.Lock()
	_, ended := s.ended[id]
	s.mu.Unlock()
	if ended || s.store == nil {
		return ended
	}
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	ended, err := s.store.Ended(ctx, id)
	return err == nil && ended // the page must work while the store is down: it shows what is broken
}

// End ends a session. After an error it has ended in this process only.
func (s *Sessions) End(ctx context.Context, session *Session) error {
	now, until := time.Now(), time.Unix(session.Expires, 0)
	s.mu.Lock()
	if s.ended == nil {
		s.ended = map[string]time.Time{}
	}
	for id, over := range s.ended {
		if over.Before(now) {
			delete(s.ended, id)
		}
	}
	s.ended[session.ID] = until
	s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	return s.store.End(ctx, session.ID, until.Sub(now))
}

// NoCookie returns the cookie that deletes the page's.
func NoCookie(r *http.Request) string { return cookieOf(r, "", -time.Second) }

func cookieOf(r *http.Request, value string, life time.Duration) string {
	c := http.Cookie{
		Name: SessionCookie, Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
	if behindTLS(r) {
		c.Name, c.Secure = hostPrefix+SessionCookie, true
	}
	return c.String()
}

// behindTLS reports whether the browser used https. A client that claims so wrongly gets a cookie that it will not send.
func behindTLS(r *http.Request) bool {
	proto, _, _ := strings.Cut(cmp.Or(r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Scheme")), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(proto), "https") ||
		strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "https://")
}
