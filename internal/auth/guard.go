package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// A Guard determines what callers of the internal listener may do. Made by NewGuard; safe for concurrent use.
type Guard struct {
	tokens   *Tokens // nil: the listener is bound to loopback
	sessions *Sessions
	proxies  Proxies
	guesses  guesses
}

// NewGuard makes a guard. Without tokens every caller is an operator.
func NewGuard(tokens *Tokens, sessions *Sessions, proxies Proxies) *Guard {
	return &Guard{tokens: tokens, sessions: sessions, proxies: proxies}
}

// A Route is what a guard needs of the route of a request.
type Route struct {
	Open    bool // needs no token
	Session bool // begins and ends sessions
	Basic   bool // accepts a token as the password of Basic, and no cookie; some of its calls change something although they are GETs
	Gateway bool // for gateways, which forward the fields of their clients
	Page    bool // the page itself, which a link may open
}

// A Grant is what a caller may do. The zero value permits nothing.
type Grant struct {
	Role Role
	Name string // of the token; also empty without tokens

	found   Token // the presented token, or the session's; also zero without tokens
	session bool  // authenticated by the page's cookie
}

// Check returns what the sender of a request may do. Without any tokens the listener is bound to loopback, and every caller is
// an operator, except web pages: any site can make a browser on this machine send requests here.
func (g *Guard) Check(r *http.Request, at Route) (Grant, error) {
	if g.tokens == nil {
		switch {
		case foreignHost(r):
			return Grant{}, wrongHost(r, "localhost, 127.0.0.1 or [::1]: without tokens this listener serves this machine only")
		case !at.Gateway && forwarded(r) != "":
			return Grant{}, &ForbiddenError{Detail: fmt.Sprintf("A proxy forwarded this request (it has the field %s), and without tokens this "+
				"listener "+
				"serves only programs on this machine: set INTERNAL_TOKEN or TOKENS_FILE.", forwarded(r))}
		case foreign(r, at), at.Basic && !at.Gateway && unproven(r, at):
			return Grant{}, wrongOrigin(r)
		}
		return Grant{Role: RoleOperator}, nil
	}
	if at.Open {
		if at.Session && r.Method != http.MethodGet && foreignOrigin(r) {
			return Grant{}, wrongOrigin(r)
		}
		return Grant{}, nil
	}
	var grant Grant
	var err error
	switch text, how := presentedToken(r, at); how {
	case inField:
		grant.found, err = g.FindToken(r, text)
	case asPassword:
		if foreign(r, at) || unproven(r, at) { // browsers add a stored password by themselves
			return Grant{}, wrongOrigin(r)
		}
		grant.found, err = g.FindToken(r, text)
	case notAtAll:
		if at.Basic {
			return Grant{}, ErrUnauthenticated
		}
		s, found, ok := g.sessions.Of(r)
		switch {
		case !ok:
			return Grant{}, ErrUnauthenticated
		case !ownOrigin(r):
			return Grant{}, wrongOrigin(r)
		case s.Host != strings.ToLower(r.Host):
			return Grant{}, wrongHost(r, s.Host+", where the session began")
		}
		grant.found, grant.session = found, true
	}
	if err != nil {
		return Grant{}, err
	}
	grant.Role, grant.Name = grant.found.Role, grant.found.Name
	return grant, nil
}

// FindToken returns the token with this text. The error is ErrUnauthenticated or a *ThrottledError. A valid token is never throttled:
// one of 16 characters cannot be guessed, and a service with an outdated token must not lock out others behind the same address.
func (g *Guard) FindToken(r *http.Request, text string) (Token, error) {
	if found, ok := g.tokens.find(text); ok {
		return found, nil
	}
	if wait := g.guesses.count(netaddr.Address(admissionhttp.ClientAddress(r, g.proxies)), time.Now()); wait > 0 {
		return Token{}, &ThrottledError{Wait: wait}
	}
	return Token{}, ErrUnauthenticated
}

// Holds returns ErrUnauthenticated unless a caller with this grant would get it again: a token may be removed or changed, and a session
// may end.
func (g *Guard) Holds(r *http.Request, grant Grant) error {
	holds := g.tokens == nil || g.tokens.holds(grant.found)
	if grant.session {
		_, found, ok := g.sessions.Of(r)
		holds = ok && found == grant.found
	}
	if !holds {
		return ErrUnauthenticated
	}
	return nil
}

// foreign reports whether a page of another origin may have made a browser send a request, with the rights of the browser's
// user. Gateways forward the Origin of their clients; but no page can set the fields that describe the client's request.
func foreign(r *http.Request, at Route) bool {
	return foreignOrigin(r) && !at.asked(r) && !linked(r, at)
}

// asked reports whether a gateway asks about a request of its client.
func (at Route) asked(r *http.Request) bool {
	return at.Gateway && (len(r.Header["X-Forwarded-Uri"]) > 0 || len(r.Header["X-Original-Uri"]) > 0)
}

// linked reports whether a browser opens the page itself, perhaps through a link on another site: that changes nothing, and the
// page cannot be framed.
func linked(r *http.Request, at Route) bool {
	return at.Page && r.Method == http.MethodGet &&
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
func presentedToken(r *http.Request, at Route) (text string, how presentation) {
	if t := r.Header.Get("X-Tidegate-Token"); t != "" {
		return t, inField
	}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	_, password, basic := r.BasicAuth()
	r.Header.Del("Authorization")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return strings.TrimSpace(rest), inField
	case basic && at.Basic:
		return password, asPassword
	}
	return "", notAtAll
}

// foreignHost reports whether a request to a loopback address names another host: that is what DNS rebinding looks like.
func foreignHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return (!ok || peerAddress(local.String()).IsLoopback()) && !loopbackName(r.Host)
}

// wrongHost returns the error that names the right Host.
func wrongHost(r *http.Request, right string) error {
	return &ForbiddenError{Detail: fmt.Sprintf("The request's Host is %q, and must be %s.", input.Shortened(r.Host), right)}
}

// wrongOrigin returns the error that names the permitted origin.
func wrongOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Referer") == "" {
		return &ForbiddenError{Detail: fmt.Sprintf("Nothing shows that a page of %s made this request: it has none of the fields "+
			"Sec-Fetch-Site, Origin and Referer. "+
			"Programs must send their token in a header, or another User-Agent than a browser's.", input.Shortened(r.Host))}
	}
	return &ForbiddenError{Detail: fmt.Sprintf("A page of another origin made this request (Origin %q, Sec-Fetch-Site %q). Only pages of "+
		"%s may, and programs that send their token in a header.",
		input.Shortened(r.Header.Get("Origin")), input.Shortened(r.Header.Get("Sec-Fetch-Site")), input.Shortened(r.Host))}
}

// foreignOrigin reports whether a request was made by a page of another origin.
func foreignOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site": // other ports and subdomains are separate origins, and a GET may have no Origin
		return true
	}
	origin := r.Header.Get("Origin")
	return origin != "" && !sameHost(origin, r)
}

// ownOrigin reports whether a page of this origin, or the user of a browser, made a request for certain. Over plain HTTP a GET has no other
// sign of that than its Referer.
func ownOrigin(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site != "":
		return (site == "same-origin" || site == "none") && !foreignOrigin(r)
	case r.Header.Get("Origin") != "":
		return sameHost(r.Header.Get("Origin"), r)
	}
	return sameHost(r.Header.Get("Referer"), r)
}

func sameHost(address string, r *http.Request) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// unproven reports whether a browser sent a request, and nothing shows that a page of this origin or its user asked for that: it
// may be an image in a page of another one. No page can make a browser leave out its name.
func unproven(r *http.Request, at Route) bool {
	return strings.HasPrefix(r.UserAgent(), "Mozilla/") && !at.asked(r) && !ownOrigin(r)
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
