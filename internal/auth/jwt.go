package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/reload"
)

const (
	maxToken  = 8 << 10 // bytes of a token, JWT or not
	clockSkew = 30 * time.Second
	minSecret = 32 // bytes; RFC 7518, section 3.2, for HS256
)

// When keys are fetched from a URL.
const (
	refreshEvery = 5 * time.Minute  // up to a tenth more
	repairEvery  = 15 * time.Second // after an error
	unknownEvery = 10 * time.Second // at least, for tokens with an unknown kid
)

// JWTOptions define which tokens are accepted. Exactly one of Secret, JWKSFile and JWKSURL is set.
type JWTOptions struct {
	Secret   []byte       // for HS256; at least 32 bytes
	JWKSFile string       // public keys for RS256, ES256 and EdDSA; reloaded when it changes
	JWKSURL  string       // the same from a URL that CheckJWKSURL accepts; fetched every five minutes, and for tokens with an unknown kid
	Issuer   string       // the iss every token must have; empty: any
	Audience string       // an aud every token must have; empty: any
	Logger   *slog.Logger // nil: slog.Default()
}

// JWT identifies users by a JSON Web Token in Authorization: sub is the user, tier the tier. The configured key
// determines the algorithm, never the token alone. Made by NewJWT; safe for concurrent use.
type JWT struct {
	algorithms []jose.SignatureAlgorithm
	secret     []byte // empty: the keys are in keys
	keys       atomic.Pointer[[]jose.JSONWebKey]
	skipped    map[string]bool // keys of the last set that were not used, with the reason; used by load
	source     *reload.Source  // of the keys; nil: there is a secret
	file       string
	expected   jwt.Expected
	log        *slog.Logger
	now        func() time.Time

	wanted  chan struct{} // asks Run to fetch the keys; nil: they are not from a URL
	mu      sync.Mutex
	fetched time.Time     // end of the last fetch
	pending chan struct{} // closed with the end of the fetch that a token asked for; nil: none did
}

// NewJWT reads the key file, if there is one. Keys of a URL must be loaded before tokens arrive: see Load.
func NewJWT(opts JWTOptions) (*JWT, error) {
	j := &JWT{file: opts.JWKSFile, log: cmp.Or(opts.Logger, slog.Default()), now: time.Now}
	j.expected.Issuer = opts.Issuer
	if opts.Audience != "" {
		j.expected.AnyAudience = jwt.Audience{opts.Audience}
	}
	sources := 0
	for _, given := range []bool{len(opts.Secret) > 0, opts.JWKSFile != "", opts.JWKSURL != ""} {
		if given {
			sources++
		}
	}
	j.keys.Store(&[]jose.JSONWebKey{})
	j.algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
	switch {
	case sources != 1:
		return nil, errors.New("auth: set either a secret, a file or a URL of keys for JWTs")
	case opts.JWKSFile != "":
		j.source = reload.File("JWT_JWKS_FILE", opts.JWKSFile, j.log, j.load)
		return j, j.Load(context.Background())
	case opts.JWKSURL != "":
		if err := CheckJWKSURL(opts.JWKSURL); err != nil {
			return nil, fmt.Errorf("auth: the URL of keys %w", err)
		}
		j.wanted = make(chan struct{}, 1)
		j.source = reload.New("JWT_JWKS_URL", j.log, fetchKeys(opts.JWKSURL), j.load)
		return j, nil
	case len(opts.Secret) < minSecret:
		return nil, fmt.Errorf("auth: the secret of JWTs must have at least %d bytes, got %d", minSecret, len(opts.Secret))
	}
	j.algorithms, j.secret = []jose.SignatureAlgorithm{jose.HS256}, opts.Secret
	return j, nil
}

// Source is the file or URL of the keys; nil: there is none.
func (j *JWT) Source() *reload.Source { return j.source }

// Load reads the keys now. After an error the last good keys stay in force.
func (j *JWT) Load(ctx context.Context) error {
	if j.source == nil {
		return nil
	}
	return j.source.Load(ctx)
}

// Run keeps the keys up to date, until ctx ends. It then returns nil.
func (j *JWT) Run(ctx context.Context) error {
	switch {
	case j.source == nil:
		<-ctx.Done()
		return nil
	case j.file != "":
		return j.source.Watch(ctx, j.file)
	}
	for {
		wait := refreshEvery + rand.N(refreshEvery/10)
		if j.source.State().Failed {
			wait = repairEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-j.wanted:
			timer.Stop()
		}
		_ = j.Load(ctx) // it is logged
		j.mu.Lock()
		if j.fetched = j.now(); j.pending != nil {
			close(j.pending)
			j.pending = nil
		}
		j.mu.Unlock()
	}
}

// fetch makes Run fetch the keys, unless it has done so a moment ago. The result is closed when it has; nil: it will not.
func (j *JWT) fetch() <-chan struct{} {
	if j.wanted == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pending == nil && j.now().Sub(j.fetched) >= unknownEvery {
		j.pending = make(chan struct{})
		select {
		case j.wanted <- struct{}{}:
		default:
		}
	}
	return j.pending
}

// Identify implements Identity. Its errors are *JWTError.
func (j *JWT) Identify(r *http.Request, _ bool) (Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return Caller{}, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return Caller{}, malformed(fmt.Sprintf("Authorization must be sent once, as Bearer with a token of at most %d bytes.", maxToken), nil)
	}
	return j.verify(strings.TrimSpace(token))
}

func (j *JWT) verify(token string) (Caller, error) {
	keys := j.keys.Load() // before it is used, so that a later change is noticed
	parsed, err := jwt.ParseSigned(token, j.algorithms)
	if err != nil {
		if cause := causeOf(err); cause != JWTMalformed {
			return Caller{}, refused(cause, err)
		}
		return Caller{}, malformed("The token is not a signed JWT in compact form.", err)
	}
	if problem := headerProblem(token); problem != "" {
		return Caller{}, malformed(problem, nil)
	}
	if err := j.checkSignature(parsed); err != nil {
		return Caller{}, err
	}
	var claims struct {
		jwt.Claims
		Subject any    `json:"sub"` // a number is a frequent mistake with a cause of its own
		Tier    string `json:"tier"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return Caller{}, malformed("A claim has a wrong type: exp, nbf and iat must be numbers, iss, sub and tier strings, aud a string or a "+
			"list of strings.", err)
	}
	user, _ := claims.Subject.(string)
	now := j.now()
	expected := j.expected.WithTime(now)
	switch {
	case claims.Expiry == nil:
		return Caller{}, refused(JWTNoExpiry, errors.New("it has no exp"))
	case !now.Before(claims.Expiry.Time()): // expiry has no leeway; only nbf and iat do
		return Caller{}, refused(JWTExpired, jwt.ErrExpired)
	case user == "":
		return Caller{}, refused(JWTSubject, fmt.Errorf("sub must be a string that is not empty, got a value of type %T", claims.Subject))
	}
	if err := claims.ValidateWithLeeway(expected, clockSkew); err != nil {
		return Caller{}, refused(causeOf(err), err)
	}
	proof := &verifiedJWT{by: j, text: token, expires: claims.Expiry.Time()}
	proof.keys.Store(keys)
	return Caller{User: user, Tier: claims.Tier, proof: proof}, nil
}

// A verifiedJWT is a token that was valid, and the keys of that time.
type verifiedJWT struct {
	by      *JWT
	text    string
	expires time.Time
	keys    atomic.Pointer[[]jose.JSONWebKey]
}

// holds verifies the token again if the keys have changed.
func (v *verifiedJWT) holds() error {
	keys := v.by.keys.Load()
	switch {
	case !v.by.now().Before(v.expires):
		return refused(JWTExpired, jwt.ErrExpired)
	case keys == v.keys.Load():
		return nil
	}
	_, err := v.by.verify(v.text)
	if err == nil {
		v.keys.Store(keys)
	}
	return err
}

// ourTypes begins the header typ of everything that Tidegate signs itself, such as passes. None of it proves who somebody is,
// whoever trusts its key.
const ourTypes = "tidegate-"

// headerProblem returns what is wrong with the header of a token that was parsed; empty: nothing. RFC 7515 forbids a member crit that is an
// empty list or null, which the library takes.
func headerProblem(token string) string {
	head, _, _ := strings.Cut(token, ".")
	text, err := keyhash.DecodeRawURL(head)
	var header map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil {
		return "The token's header is no JSON object."
	}
	if _, critical := header["crit"]; critical {
		return "The token's header has crit, and no extension is supported."
	}
	var typ string
	_ = json.Unmarshal(header["typ"], &typ) // another value is not ours
	if typ = strings.TrimPrefix(strings.ToLower(typ), "application/"); strings.HasPrefix(typ, ourTypes) {
		return "The token is a pass or another signed text of Tidegate, which does not prove who sends it."
	}
	return ""
}

// checkSignature returns a *JWTError unless a known key has signed the token.
func (j *JWT) checkSignature(token *jwt.JSONWebToken) error {
	if len(j.secret) > 0 {
		if err := token.Claims(j.secret); err != nil {
			return refused(JWTSignature, err)
		}
		return nil
	}
	header := token.Headers[0]
	err, known := errors.New("no key has its kid and alg"), header.KeyID == ""
	for _, key := range *j.keys.Load() {
		known = known || header.KeyID == key.KeyID
		if header.KeyID != "" && header.KeyID != key.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if err = token.Claims(key.Key); err == nil {
			return nil
		}
	}
	e := refused(JWTSignature, err)
	if !known {
		e.Fetched = j.fetch()
	}
	return e
}
