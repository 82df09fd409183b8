// Package authtest makes tokens for tests.
package authtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// TokenList is a tokens file with one token for each role.
const TokenList = `
- {name: gateway, role: admit, token: admit-token-of-tests}
- {name: prometheus, role: metrics, token: metrics-token-of-tests}
- {name: hall, role: viewer, token: viewer-token-of-tests}
- {name: ops, role: operator, token: operator-token-of-tests}
`

// WriteTokens writes a tokens file, and returns its path.
func WriteTokens(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

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
