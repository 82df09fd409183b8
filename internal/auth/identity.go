package auth

import "net/http"

// Caller is the sender of a request. Package orders validates the user. A tier that no rule names has no effect.
type Caller struct {
	User string // empty: anonymous
	Tier string // empty: the default of package admission, with or without a user

	proof *verifiedJWT // nil: a proxy named the user, or there is none
}

// Holds returns an error unless the sender would be identified again: a token expires, and its key may be removed. It is a *JWTError.
func (c *Caller) Holds() error {
	if c.proof == nil {
		return nil
	}
	return c.proof.holds()
}

// Expires reports whether Holds may return an error one day.
func (c *Caller) Expires() bool { return c.proof != nil }

// Identity determines the sender of a request: HeaderIdentity or *JWT.
type Identity interface {
	// Identify uses the request's identity headers only if the sender is trusted or proves its identity.
	Identify(r *http.Request, trusted bool) (Caller, error)
}

// HeaderIdentity takes the user from X-User-ID and the tier from X-User-Tier, which a proxy in front has set. It ignores them
// from senders that are not trusted.
type HeaderIdentity struct{}

func (HeaderIdentity) Identify(r *http.Request, trusted bool) (Caller, error) {
	if !trusted {
		return Caller{}, nil
	}
	// In the canonical spelling: with another, such as X-User-ID, Get allocates.
	return Caller{User: r.Header.Get("X-User-Id"), Tier: r.Header.Get("X-User-Tier")}, nil
}
