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

// tokenless are the routes that need no token. The page is the same for everybody, and contains no data; its stream needs a
// token or session.
var tokenless = map[string]bool{
	"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/problems/:name": true,
	pagePath: true, assetsPath + "*": true, sessionPath: true,
}

// guard admits requests with a token to the internal listener. Without any tokens the listener is bound to loopback, and every
// caller is an operator, except web pages: any site can make a browser on this machine send requests here.
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
			if foreign(r.http, route) { // browsers add a stored password by themselves
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

// findToken returns the token that text is, or an error.
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

// foreign reports whether a page of another origin may have made a browser send a request, with the rights of the browser's
// user. Gateways forward the Origin of their clients; but no page can set the fields that describe the client's request.
func foreign(r *http.Request, route string) bool {
	asks := route == authzPath && (len(r.Header["X-Forwarded-Uri"]) > 0 || len(r.Header["X-Original-Uri"]) > 0)
	return foreignOrigin(r) && !asks && !linked(r, route)
}

// linked reports whether a browser opens the page itself, perhaps through a link on another site: that changes nothing, and the
// page cannot be framed.
func linked(r *http.Request, route string) bool {
	return route == pagePath && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// presentation is how a request presents its token.
type presentation int

const (
	notAtAll   presentation = iota
	inField                 // in a field that no page of another origin can set
	asPassword              // by Basic
)

// presentedToken removes the token from the request and returns it. X-Tidegate-Token takes precedence, and leaves Authorization
// to the user's own token. Basic is accepted from gateways and from Koala clients, some of which cannot send anything else.
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

// foreignHost reports whether a request to a loopback address names another host: that is what DNS rebinding looks like.
func foreignHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return (!ok || peerAddress(local.String()).IsLoopback()) && !loopbackName(r.Host)
}

// wrongHost returns the problem that names the right Host.
func wrongHost(r *http.Request, right string) error {
	p := problem(reasonForbidden)
	p.Detail = fmt.Sprintf("The request's Host is %q, and must be %s.", quoted(r.Host), right)
	return p
}

// wrongOrigin returns the problem that names the permitted origin.
func wrongOrigin(r *http.Request) error {
	p := problem(reasonForbidden)
	p.Detail = fmt.Sprintf("A page of another origin made this request (Origin %q, Sec-Fetch-Site %q). Only pages of %s may, and programs that send their token in a header.",
		quoted(r.Header.Get("Origin")), quoted(r.Header.Get("Sec-Fetch-Site")), quoted(r.Host))
	return p
}

// foreignOrigin reports whether a request was made by a page of another origin.
func foreignOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site": // other ports and subdomains are separate origins, and a GET may have no Origin
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
