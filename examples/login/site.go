package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	style []byte

	page = template.Must(template.New("page").Parse(pageText))
)

// policy allows nothing but files and calls of this site. The widget needs no more: its script, its style, its worker and a challenge.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A site is the page to log in to.
type site struct {
	tidegate *tidegate
	accounts *accounts
	sessions sessions
	handed   meter // challenges
	https    bool
}

func newSite(t *tidegate, a *accounts, https bool) http.Handler {
	s := &site{tidegate: t, accounts: a, https: https}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) { s.show(w, http.StatusOK, view{}) })
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /captcha/challenge", s.challenge)
	mux.Handle("GET /captcha/", http.StripPrefix("/captcha/", captcha.Widget()))
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	// Forms of other sites must not log anybody in or out, nor guess: the addresses of their visitors would be banned.
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		protected.ServeHTTP(w, r)
	})
}

// What the page says. Of a wrong name, a wrong password and a denial it says the same, so that nobody learns which names exist or what was
// counted; and Tidegate counts names that nobody has like all others.
const (
	wrong       = "That did not work. The name or the password is wrong, or there were too many attempts: then it works again in a few minutes."
	unchecked   = "Please type your password once more. Your browser solves a small task first, which slows down programs that guess."
	busy        = "There are many attempts to log in by this name. Please try again a little later."
	unavailable = "Nobody can log in at the moment. Please try again in a minute."
)

func (s *site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	a := attempt{
		Name: r.PostFormValue("name"), IP: peer(r), Device: s.cookie(r, "device"), Captcha: r.PostFormValue("altcha"), RequestID: rand.Text(),
	}
	v := view{Name: a.Name}

	// 1. Before the password is checked. If this cannot be asked, nobody gets in: else whoever brings Tidegate down may guess as he likes.
	d, err := s.tidegate.decide(r.Context(), a)
	switch {
	case errors.Is(err, errInvalid):
		s.refuse(w, v)
		return
	case err != nil:
		slog.ErrorContext(r.Context(), "no decision", "error", err)
		s.away(w, v)
		return
	}
	switch d.Decision {
	case "allow":
	case "challenge":
		v.Message, v.Challenge = unchecked, challengeAt(d)
		s.show(w, http.StatusForbidden, v)
		return
	case "delay": // it is the browser that waits: somebody who sleeps here holds a connection, and an attacker has many
		v.Message, v.Wait = busy, retryAfter(w, d)
		s.show(w, http.StatusTooManyRequests, v)
		return
	default: // deny; the password is not looked at, so that a right one looks no different
		retryAfter(w, d)
		s.refuse(w, v)
		return
	}

	// 2. The password.
	ok, failed := s.accounts.check(r.Context(), a.Name, r.PostFormValue("password"))
	result := "failure"
	switch {
	case failed != nil:
		result = "error" // what was not checked was no guess
	case ok:
		result = "success"
	}

	// 3. After it, also if the browser has gone: what nobody settles within 30 seconds counts as a failure.
	device, err := s.tidegate.settle(context.WithoutCancel(r.Context()), d.AttemptID, result)
	if err != nil { // the decision stands all the same
		slog.ErrorContext(r.Context(), "not settled", "error", err)
	}
	switch {
	case failed != nil:
		slog.ErrorContext(r.Context(), "password not checked", "error", failed)
		s.away(w, v)
	case !ok:
		// If the next attempt needs a solution, the browser can work on it while the password is typed. Checking counts nothing.
		a.Mode, a.Captcha, a.RequestID = "check", "", ""
		if next, err := s.tidegate.decide(r.Context(), a); err == nil && next.Decision == "challenge" {
			v.Challenge = challengeAt(next)
		}
		s.refuse(w, v)
	default:
		if device != "" {
			s.setCookie(w, "device", device, 90*24*time.Hour)
		}
		s.setCookie(w, "session", s.sessions.open(a.Name), 12*time.Hour)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// peer is the address that Tidegate counts by. Behind a proxy of your own it is the proxy's, and all the world is one client: then take the last
// address that your proxy has added to X-Forwarded-For, and nothing that came from further away, because anybody can write there.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // without one Tidegate takes no attempt
	return at.Addr().Unmap().WithZone("")
}

// retryAfter tells when to ask again, in whole seconds, rounded up.
func retryAfter(w http.ResponseWriter, d decision) int64 {
	seconds := max(1, (d.RetryAfterMS+999)/1000)
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	return seconds
}

func (s *site) refuse(w http.ResponseWriter, v view) {
	v.Message = wrong
	s.show(w, http.StatusUnauthorized, v)
}

func (s *site) away(w http.ResponseWriter, v view) {
	v.Message = unavailable
	w.Header().Set("Retry-After", "60")
	s.show(w, http.StatusServiceUnavailable, v)
}

// A view is what the page shows.
type view struct {
	User      string // who is logged in; empty: the form
	Name      string // as it was typed. A password is never sent back
	Message   string
	Wait      int64  // seconds
	Challenge string // URL; the widget is on the page
}

func (s *site) show(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
