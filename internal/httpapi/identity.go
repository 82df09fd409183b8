package httpapi

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

// Caller is who sent a request. Package orders judges what may be a user; a tier that the rules do not name is like any other.
type Caller struct {
	User string // empty: nobody is named
	Tier string // empty: what package admission gives to those with and without a user
}

// userParameters are the fields by which a proxy says who its client is.
var userParameters = []*huma.Param{
	headerParameter("X-User-ID", "The user, as the proxy in front says it: believed from loopback and TRUSTED_PROXIES, and of no effect from others. The proxy must overwrite what a client sends"),
	headerParameter("X-User-Tier", "The user's tier, likewise. Without it: registered with a user, anonymous without"),
}

// describeCaller documents how some operations learn who calls. With IDENTITY=jwt the document's security says it of users.
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

// Identity finds out who sent a request: HeaderIdentity or *JWT.
type Identity interface {
	// identify believes what the request says about itself only if its sender is trusted or proves it.
	identify(r *http.Request, trusted bool) (Caller, error)
}

// HeaderIdentity takes the user from X-User-ID and the tier from X-User-Tier,
// which a proxy in front has set. From anybody else they count for nothing.
type HeaderIdentity struct{}

func (HeaderIdentity) identify(r *http.Request, trusted bool) (Caller, error) {
	if !trusted {
		return Caller{}, nil
	}
	return Caller{User: r.Header.Get("X-User-ID"), Tier: r.Header.Get("X-User-Tier")}, nil
}

// identify is the step of a request that names its caller.
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

// mayNameUsers tells whether the sender of a request is believed about its user: a trusted proxy; or a program of this machine, unless it
// hands on what somebody else has sent, who may have written X-User-ID.
func (a *API) mayNameUsers(r *http.Request) bool {
	peer := peerAddress(r.RemoteAddr)
	if within(a.proxies, peer) {
		return true
	}
	handedOn := len(r.Header["X-Forwarded-For"])+len(r.Header["Forwarded"])+len(r.Header["Via"]) > 0
	return peer.IsLoopback() && !handedOn
}
