package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	clockSkew    = 30 * time.Second // nbf comes from the clock of Tidegate's database
	refreshEvery = 5 * time.Minute
	unknownEvery = 10 * time.Second // at least, for passes with an unknown kid
)

// Passes verifies the passes of one waiting room with the keys that Tidegate publishes. Safe for concurrent use.
type Passes struct {
	Room string // aud of the passes
	Keys string // URL of /.well-known/jwks.json

	mu      sync.Mutex
	set     jose.JSONWebKeySet // guarded by mu
	fetched time.Time          // guarded by mu
}

// Verify returns the subject of a valid pass: the user, or the place of an unknown visitor. Everything that it checks is needed: the
// installation signs other texts too, and other rooms have passes of their own.
func (p *Passes) Verify(ctx context.Context, pass string) (subject string, err error) {
	token, err := jwt.ParseSigned(pass, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil {
		return "", err
	}
	header := token.Headers[0]
	if kind := header.ExtraHeaders[jose.HeaderType]; kind != "tidegate-pass+jwt" {
		return "", fmt.Errorf("typ is %v", kind)
	}
	key, err := p.key(ctx, header.KeyID)
	if err != nil {
		return "", err
	}
	var claims struct {
		jwt.Claims

		Use string `json:"token_use"`
	}
	if key.Algorithm != header.Algorithm {
		return "", fmt.Errorf("alg is %s", header.Algorithm)
	}
	if err := token.Claims(key.Key, &claims); err != nil {
		return "", err
	}
	now := time.Now()
	switch {
	case claims.Use != "access":
		return "", fmt.Errorf("token_use is %q", claims.Use)
	case claims.Expiry == nil || claims.Subject == "": // go-jose accepts both
		return "", errors.New("exp and sub are required")
	case now.After(claims.Expiry.Time()): // no skew here
		return "", jwt.ErrExpired
	}
	expected := jwt.Expected{Issuer: "tidegate", AnyAudience: jwt.Audience{p.Room}, Time: now}
	return claims.Subject, claims.ValidateWithLeeway(expected, clockSkew)
}

// key returns the key with this id. It fetches the keys again when they are old, and for an id that is not among them.
func (p *Passes) key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, age := p.set.Key(id), time.Since(p.fetched)
	if age > refreshEvery || len(known) == 0 && age > unknownEvery {
		if err := p.fetch(ctx); err != nil && len(known) == 0 {
			return nil, err
		}
		known = p.set.Key(id)
	}
	if len(known) != 1 {
		return nil, errors.New("the key is not known")
	}
	return &known[0], nil
}

func (p *Passes) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Keys, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", p.Keys, resp.Status)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&set); err != nil {
		return err
	}
	p.set, p.fetched = set, time.Now()
	return nil
}
