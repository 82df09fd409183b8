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

// policy allows only files and calls of this site. The widget needs its script, its style, its worker and a challenge.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A site is the login page.
type site struct {
	tidegate *tidegate
	accounts *accounts
	sessions sessions
	handed   meter // challenges served
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
	// Forms of other sites must not log in, log out or guess: the addresses of their visitors would be banned.
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		protected.ServeHTTP(w, r)
	})
}

// Messages of the page. A wrong name, a wrong password and a denial get the same message, which must not reveal which names exist or what
// was counted. Tidegate counts unknown names like existing ones.
const (
	wrong = "That did not work. The name or the password is wrong, or there were too many attempts: then it works again in a few " +
		"minutes."
	unchecked   = "Please type your password once more. Your browser solves a small task first, which slows down programs that guess."
	busy        = "There are many attempts to log in by this name. Please try again a little later."
	unavailable = "Login is unavailable at the moment. Please try again in a minute."
)

func (s *site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	a := attempt{
		Name: r.PostFormValue("name"), IP: peer(r), Device: s.cookie(r, "device"), Captcha: r.PostFormValue("altcha"), RequestID: rand.Text(),
	}
	v := view{Name: a.Name}

	// 1. Before the password is checked. If Tidegate does not answer, every login is denied: otherwise an attacker who overloads it could
	// guess freely.
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
	case "delay": // the browser waits: sleeping here would hold a connection, and an attacker has many
		v.Message, v.Wait = busy, retryAfter(w, d)
		s.show(w, http.StatusTooManyRequests, v)
		return
	default: // deny; the password is not checked, so that a correct one makes no difference
		retryAfter(w, d)
		s.refuse(w, v)
		return
	}

	// 2. The password.
	ok, failed := s.accounts.check(r.Context(), a.Name, r.PostFormValue("password"))
	result := "failure"
	switch {
	case failed != nil:
		result = "error" // an unchecked password is no guess
	case ok:
		result = "success"
	}

	// 3. After the check, even if the client has gone: an attempt that is not settled within 30 seconds counts as a failure.
	device, err := s.tidegate.settle(context.WithoutCancel(r.Context()), d.AttemptID, result)
	if err != nil { // the result of the check stands anyway
		slog.ErrorContext(r.Context(), "not settled", "error", err)
	}
	switch {
	case failed != nil:
		slog.ErrorContext(r.Context(), "password not checked", "error", failed)
		s.away(w, v)
	case !ok:
		// If the next attempt needs a solution, the browser can compute it while the user types the password. Mode check counts nothing.
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

// peer returns the address that Tidegate counts by. Behind your own proxy this would be the proxy's address, and all users would share
// one count. Use the last address that your proxy has added to X-Forwarded-For then, and no earlier one, because clients can forge those.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // Tidegate rejects attempts without a valid address
	return at.Addr().Unmap().WithZone("")
}

// retryAfter sets Retry-After and returns it in whole seconds, rounded up.
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

// A view is the data of the page.
type view struct {
	User      string // empty: show the login form
	Name      string // as typed; a password is never sent back
	Message   string
	Wait      int64  // seconds
	Challenge string // URL; if set, the page contains the widget
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
