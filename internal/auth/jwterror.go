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

// details are for callers. The claims are checked after the signature, so their details are only for tokens of the issuer. They contain
// nothing about keys, and not the issuer and audience that would be right.
var details = map[JWTCause]string{
	JWTAlgorithm:   "The token is not accepted.",
	JWTSignature:   "The token is not accepted.",
	JWTExpired:     "The token has expired: exp is in the past.",
	JWTNoExpiry:    "exp is missing.",
	JWTNotYetValid: "The token is not valid yet: nbf or iat is in the future.",
	JWTIssuer:      "iss is not the required one.",
	JWTAudience:    "aud does not contain the required one.",
	JWTSubject:     "sub must be a string that is not empty.",
}

// A JWTError refuses a JWT. It is an ErrUnauthenticated; its text is for the operator, never for the caller.
type JWTError struct {
	Cause  JWTCause
	Detail string // for the caller
	// Fetched is closed when keys that may have signed the token have been fetched; nil: they will not be.
	Fetched <-chan struct{}
	err     error
}

func refused(cause JWTCause, err error) *JWTError {
	return &JWTError{Cause: cause, Detail: details[cause], err: err}
}

// malformed refuses a token for its form. A nil err is the detail.
func malformed(detail string, err error) *JWTError {
	if err == nil {
		err = errors.New(detail)
	}
	return &JWTError{Cause: JWTMalformed, Detail: detail, err: err}
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
