package auth

import (
	"errors"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A JWTCause is why a JWT was refused. It is a closed set.
type JWTCause string

// The causes.
const (
	JWTMalformed   JWTCause = "malformed" // not one signed JWT of at most 8 KiB, or a claim of a wrong type
	JWTAlgorithm   JWTCause = "algorithm" // not one of the configured key
	JWTSignature   JWTCause = "signature" // of no known key
	JWTExpired     JWTCause = "expired"
	JWTNoExpiry    JWTCause = "no_expiry"
	JWTNotYetValid JWTCause = "not_yet_valid" // by nbf or iat
	JWTIssuer      JWTCause = "issuer"
	JWTAudience    JWTCause = "audience"
	JWTSubject     JWTCause = "subject" // sub is missing, empty, or not a string
)

// JWTCauses are all causes.
var JWTCauses = []JWTCause{
	JWTMalformed, JWTAlgorithm, JWTSignature, JWTExpired, JWTNoExpiry, JWTNotYetValid, JWTIssuer, JWTAudience, JWTSubject,
}

// A JWTError refuses a JWT. It is an ErrUnauthenticated; its text is for the operator, never for the caller.
type JWTError struct {
	Cause JWTCause
	err   error
}

func (e *JWTError) Error() string {
	return "auth: JWT refused (" + string(e.Cause) + "): " + e.err.Error()
}

func (e *JWTError) Unwrap() []error { return []error{ErrUnauthenticated, e.err} }

// causeOf returns the cause of an error of package jwt.
func causeOf(err error) JWTCause {
	switch {
	case errors.As(err, new(*jose.ErrUnexpectedSignatureAlgorithm)):
		return JWTAlgorithm
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return JWTNotYetValid
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return JWTIssuer
	case errors.Is(err, jwt.ErrInvalidAudience):
		return JWTAudience
	}
	return JWTMalformed
}
