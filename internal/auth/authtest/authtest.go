// Package authtest makes tokens for tests.
package authtest

import (
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Secret is a secret for HS256.
var Secret = []byte("an HS256 secret of 32 bytes or more")

// Claims are the claims of a JWT.
type Claims map[string]any

// GoodClaims returns the claims of a valid token of the user ada, changed as given; nil removes a claim.
func GoodClaims(change Claims) Claims {
	c := Claims{"sub": "ada", "tier": "gold", "iss": "shop", "aud": "tidegate", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range change {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

// Sign returns a JWT.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, c Claims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jwt.Signed(signer).Claims(map[string]any(c)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
