package httpapi

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

// Caller is the sender of a request. Package orders validates the user; a tier that no rule names has no effect.
type Caller struct {
	User string // empty: anonymous
	Tier string // empty: the default of package admission, with or without a user
}

// userParameters are the fields in which a proxy names its client's user.
var userParameters = []*huma.Param{
	headerParameter("X-User-ID", "The user, as the proxy in front says it: believed from loopback and TRUSTED_PROXIES, and of no effect from others. The proxy must overwrite what a client sends"),
	headerParameter("X-User-Tier", "The user's tier, likewise. Without it: registered with a user, anonymous without"),
}

// describeCaller documents how some operations identify the caller. With IDENTITY=jwt the document's security scheme describes
// the user.
func (a *API) describeCaller(described *huma.OpenAPI, of func(path string, op *huma.Operation) bool) {
	parameters := []*huma.Param{forwardedForParameter}
	if _, ok := a.identity.(HeaderIdentity); ok {
		parameters = append(parameters, userParameters...)
	}
	for path, item := range described.Paths {
		for _, op := range operationsOf(item) {
			if of(path, op) {
				op.Parameters = slices.Concat(op.Parameters, parameters)
			}
		}
	}
}

// Identity determines the sender of a request: HeaderIdentity or *JWT.
type Identity interface {
	// identify uses what the request says about its sender only if the sender is trusted or proves it.
	identify(r *http.Request, trusted bool) (Caller, error)
}

// HeaderIdentity takes the user from X-User-ID and the tier from X-User-Tier, which a proxy in front has set. It ignores them
// from senders that are not trusted.
type HeaderIdentity struct{}

func (HeaderIdentity) identify(r *http.Request, trusted bool) (Caller, error) {
	if !trusted {
		return Caller{}, nil
	}
	return Caller{User: r.Header.Get("X-User-ID"), Tier: r.Header.Get("X-User-Tier")}, nil
}

// identify is the middleware that determines the caller.
func (a *API) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if tokenless[c.Path()] {
			return next(c)
		}
		httpReq := c.Request()
		caller, err := a.identity.identify(httpReq, a.mayNameUsers(httpReq))
		if err != nil {
			return err
		}
		requestOf(httpReq.Context()).caller = caller
		return next(c)
	}
}

// mayNameUsers reports whether the sender of a request may name its user: a trusted proxy, or a program on this machine, unless
// it forwards a request of another client, which may have set X-User-ID.
func (a *API) mayNameUsers(r *http.Request) bool {
	peer := peerAddress(r.RemoteAddr)
	if within(a.proxies, peer) {
		return true
	}
	handedOn := len(r.Header["X-Forwarded-For"])+len(r.Header["Forwarded"])+len(r.Header["Via"]) > 0
	return peer.IsLoopback() && !handedOn
}
