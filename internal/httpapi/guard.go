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
		if a.mistrusted(httpReq, c.Path()) {
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
		found, ok := a.tokens.find(presentedToken(httpReq))
		if !ok {
			if ofPage(c.Path()) {
				c.Response().Header().Set("Www-Authenticate", `Basic realm="Tidegate", charset="UTF-8"`)
			}
			return errUnauthenticated
		}
		r.role, r.token, r.shown = found.role, found.name, found
		return next(c)
	}
}

// mistrusted tells whether a web page of somebody else may have sent a request. Gateways hand on their clients' Origin, and perhaps
// Host; but a page has neither a token, nor may it set the fields that name the client's request. With tokens any Host will do: a page
// whose name was led here has no token, for a browser keeps the password by the name, and a TLS proxy in front has a name of its own.
func (a *API) mistrusted(r *http.Request, route string) bool {
	if a.tokens == nil {
		return foreignHost(r) || route != authzPath && foreignOrigin(r) && !linked(r, route)
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead && !isAuthz(route) ||
		strings.HasPrefix(route, koalaPath) // some change by GET; a browser adds the password that it was told
	return changes && foreignOrigin(r)
}

// linked tells whether a browser opens the page itself, perhaps by a link of somebody else: it changes nothing, and nobody may frame it.
func linked(r *http.Request, route string) bool {
	return route == pagePath && r.Method == http.MethodGet &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
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

// foreignHost tells whether a request was made for another host: a name that leads to a loopback address without being a loopback's is
// what DNS rebinding looks like.
func foreignHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return (!ok || peerAddress(local.String()).IsLoopback()) && !loopbackName(r.Host)
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
