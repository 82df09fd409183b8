package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// tokenless are the routes that need no token.
var tokenless = map[string]bool{"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/problems/:name": true}

// guard lets into the internal listener who shows a token. Without any tokens
// the listener is bound to loopback, and everybody there is an operator, except
// web pages: a browser on this machine can be made to send their requests here.
func (a *API) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		httpReq := c.Request()
		changes := httpReq.Method != http.MethodGet && httpReq.Method != http.MethodHead
		if (changes || a.tokens == nil) && foreign(httpReq) {
			return errForbidden
		}
		r := requestOf(httpReq.Context())
		if a.tokens == nil {
			r.role = RoleOperator
			return next(c)
		}
		if tokenless[c.Path()] {
			return next(c)
		}
		var ok bool
		if r.role, ok = a.tokens.role(presentedToken(httpReq)); !ok {
			return errUnauthenticated
		}
		return next(c)
	}
}

// presentedToken takes the token out of the request. X-Tidegate-Token goes first, and
// leaves Authorization to the user's own token.
func presentedToken(r *http.Request) string {
	if t := r.Header.Get("X-Tidegate-Token"); t != "" {
		return t
	}
	t := ""
	if _, password, ok := r.BasicAuth(); ok {
		t = password
	} else if scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		t = strings.TrimSpace(rest)
	}
	r.Header.Del("Authorization")
	return t
}

// foreign tells whether a request was made by a page of another origin, or for
// another host: a name that leads to a loopback address without being a
// loopback's is what DNS rebinding looks like.
func foreign(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || peerAddress(local.String()).IsLoopback() {
		if !loopbackName(r.Host) {
			return true
		}
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
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
