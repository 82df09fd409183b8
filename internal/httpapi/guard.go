package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
)

// tokenless are the routes that need no token. The page is the same for everybody, and shows nothing before its stream does.
var tokenless = map[string]bool{
	"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/problems/:name": true,
	pagePath: true, assetsPath + "*": true, sessionPath: true,
}

// guard lets callers with a token into the internal listener. Without any tokens
// the listener is bound to loopback, and everybody there is an operator, except
// web pages: a browser on this machine can be made to send their requests here.
func (a *API) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, route := requestOf(c.Request().Context()), c.Path()
		if a.tokens == nil {
			switch {
			case foreignHost(r.http):
				return wrongHost(r.http, "localhost, 127.0.0.1 or [::1]: without tokens this listener serves this machine only")
			case foreign(r.http, route):
				return wrongOrigin(r.http)
			}
			r.role = RoleOperator
			return next(c)
		}
		if tokenless[route] {
			if route == sessionPath && r.http.Method != http.MethodGet && foreignOrigin(r.http) {
				return wrongOrigin(r.http)
			}
			return next(c)
		}
		var err error
		switch text, how := presentedToken(r.http, route); how {
		case inField:
			r.shown, err = a.findToken(r.http, text)
		case asPassword:
			if foreign(r.http, route) { // a browser adds the password that it was told
				return wrongOrigin(r.http)
			}
			r.shown, err = a.findToken(r.http, text)
		case notAtAll:
			s, found, ok := a.sessionOf(r.http)
			switch {
			case ok && foreign(r.http, route):
				return wrongOrigin(r.http)
			case ok && s.Host != strings.ToLower(r.http.Host):
				return wrongHost(r.http, s.Host+", where the session began")
			}
			if r.shown, r.session = found, true; !ok {
				err = errUnauthenticated
			}
		}
		if err != nil {
			return err
		}
		r.role, r.token = r.shown.role, r.shown.name
		return next(c)
	}
}

// findToken is the token of a text, or why there is none.
func (a *API) findToken(r *http.Request, text string) (token, error) {
	found, ok := a.tokens.find(text)
	if wait := a.guesses.check(admission.Address(admissionhttp.ClientAddress(r, a.proxies)), found.hash, ok, time.Now()); wait > 0 {
		p := problem(string(admission.RateLimited))
		p.Detail = "Too many wrong tokens have come from this address."
		p.retryAfter = wait
		return token{}, p
	}
	if !ok {
		return token{}, errUnauthenticated
	}
	return found, nil
}

// foreign tells whether a page of another origin may have made a browser send a request, with the rights of whoever sits there. Gateways
// hand on their clients' Origin; but no page may set the fields that name the client's request.
func foreign(r *http.Request, route string) bool {
	asks := route == authzPath && (len(r.Header["X-Forwarded-Uri"]) > 0 || len(r.Header["X-Original-Uri"]) > 0)
	return foreignOrigin(r) && !asks && !linked(r, route)
}

// linked tells whether a browser opens the page itself, perhaps by a link of somebody else: it changes nothing, and nobody may frame it.
func linked(r *http.Request, route string) bool {
	return route == pagePath && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// How a request presents its token.
type presentation int

const (
	notAtAll   presentation = iota
	inField                 // that no page of another origin can set
	asPassword              // by Basic
)

// presentedToken takes the token out of the request. X-Tidegate-Token goes first, and leaves Authorization to the user's own token. Basic
// is for gateways and for clients of Koala's, which may be unable to send anything else.
func presentedToken(r *http.Request, route string) (text string, how presentation) {
	if t := r.Header.Get("X-Tidegate-Token"); t != "" {
		return t, inField
	}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	_, password, basic := r.BasicAuth()
	r.Header.Del("Authorization")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return strings.TrimSpace(rest), inField
	case basic && (isAuthz(route) || strings.HasPrefix(route, koalaPath)):
		return password, asPassword
	}
	return "", notAtAll
}

// foreignHost tells whether a request was made for another host: a name that leads to a loopback address without being a loopback's is
// what DNS rebinding looks like.
func foreignHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return (!ok || peerAddress(local.String()).IsLoopback()) && !loopbackName(r.Host)
}

// wrongHost says which Host a request should have.
func wrongHost(r *http.Request, right string) error {
	p := problem(reasonForbidden)
	p.Detail = fmt.Sprintf("The request's Host is %q, and must be %s.", quoted(r.Host), right)
	return p
}

// wrongOrigin says which pages may make a request.
func wrongOrigin(r *http.Request) error {
	p := problem(reasonForbidden)
	p.Detail = fmt.Sprintf("A page of another origin made this request (Origin %q, Sec-Fetch-Site %q). Only pages of %s may, and programs that send their token in a header.",
		quoted(r.Header.Get("Origin")), quoted(r.Header.Get("Sec-Fetch-Site")), quoted(r.Host))
	return p
}

// foreignOrigin tells whether a request was made by a page of another origin.
func foreignOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site": // ports and subdomains of one site are origins of their own, and of a GET there is no Origin
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
