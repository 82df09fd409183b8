package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	maxToken  = 8 << 10 // bytes of a token, JWT or not
	clockSkew = 30 * time.Second
	minSecret = 32 // bytes; RFC 7518, section 3.2, for HS256
)

// JWTOptions define which tokens are accepted. Exactly one of Secret and JWKSFile is set.
type JWTOptions struct {
	Secret   []byte // for HS256; at least 32 bytes
	JWKSFile string // public keys for RS256, ES256 and EdDSA; reloaded when it changes
	Issuer   string // the iss every token must have; empty: any
	Audience string // an aud every token must have; empty: any
	Logger   *slog.Logger
}

// JWT identifies users by a JSON Web Token in Authorization: sub is the user, tier the tier. The configured key
// determines the algorithm, never the token alone. Made by NewJWT; safe for concurrent use.
type JWT struct {
	algorithms []jose.SignatureAlgorithm
	secret     []byte // empty: the keys are in keys
	keys       atomic.Pointer[jose.JSONWebKeySet]
	file       string
	expected   jwt.Expected
	log        *slog.Logger
	now        func() time.Time
}

// NewJWT reads the key file, if there is one.
func NewJWT(opts JWTOptions) (*JWT, error) {
	j := &JWT{file: opts.JWKSFile, log: opts.Logger, now: time.Now}
	j.expected.Issuer = opts.Issuer
	if opts.Audience != "" {
		j.expected.AnyAudience = jwt.Audience{opts.Audience}
	}
	switch {
	case (len(opts.Secret) > 0) == (opts.JWKSFile != ""):
		return nil, errors.New("auth: set either a secret or a file of keys for JWTs")
	case opts.JWKSFile != "":
		j.algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
		return j, readFile(opts.JWKSFile, j.load)
	case len(opts.Secret) < minSecret:
		return nil, fmt.Errorf("auth: the secret of JWTs must have at least %d bytes, got %d", minSecret, len(opts.Secret))
	}
	j.algorithms, j.secret = []jose.SignatureAlgorithm{jose.HS256}, opts.Secret
	return j, nil
}

// Run reloads the key file whenever it changes, and keeps the last good keys. It returns when ctx ends.
func (j *JWT) Run(ctx context.Context) error { return watchFile(ctx, j.file, j.log, j.load) }

// Identify implements Identity. Its errors are *JWTError.
func (j *JWT) Identify(r *http.Request, _ bool) (Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return Caller{}, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return Caller{}, &JWTError{JWTMalformed, fmt.Errorf("the header Authorization must be sent once, as Bearer with a token of at most %d bytes", maxToken)}
	}
	return j.verify(strings.TrimSpace(token))
}

func (j *JWT) verify(token string) (Caller, error) {
	parsed, err := jwt.ParseSigned(token, j.algorithms)
	if err != nil {
		return Caller{}, &JWTError{causeOf(err), err}
	}
	if parsed.Headers[0].ExtraHeaders["crit"] != nil { // also an empty list, which RFC 7515 forbids and the library takes
		return Caller{}, &JWTError{JWTMalformed, errors.New("it names critical extensions, and none is supported")}
	}
	if err := j.checkSignature(parsed); err != nil {
		return Caller{}, &JWTError{JWTSignature, err}
	}
	var claims struct {
		jwt.Claims
		Subject any    `json:"sub"` // a number is a frequent mistake with a cause of its own
		Tier    string `json:"tier"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return Caller{}, &JWTError{JWTMalformed, err}
	}
	user, _ := claims.Subject.(string)
	now := j.now()
	expected := j.expected.WithTime(now)
	switch {
	case claims.Expiry == nil:
		return Caller{}, &JWTError{JWTNoExpiry, errors.New("it has no exp")}
	case !now.Before(claims.Expiry.Time()): // expiry has no leeway; only nbf and iat do
		return Caller{}, &JWTError{JWTExpired, jwt.ErrExpired}
	case user == "":
		return Caller{}, &JWTError{JWTSubject, fmt.Errorf("sub must be a string that is not empty, got a value of type %T", claims.Subject)}
	}
	if err := claims.ValidateWithLeeway(expected, clockSkew); err != nil {
		return Caller{}, &JWTError{causeOf(err), err}
	}
	return Caller{User: user, Tier: claims.Tier}, nil
}

func (j *JWT) checkSignature(token *jwt.JSONWebToken) error {
	if j.file == "" {
		return token.Claims(j.secret)
	}
	header := token.Headers[0]
	err := errors.New("no key has its kid and alg")
	for _, key := range j.keys.Load().Keys {
		if header.KeyID != "" && header.KeyID != key.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if err = token.Claims(key.Key); err == nil {
			return nil
		}
	}
	return err
}
