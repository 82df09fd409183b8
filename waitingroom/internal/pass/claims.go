package pass

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer is the claim iss of passes and receipts.
const Issuer = "tidegate"

// UseAccess is the claim token_use of a pass.
const UseAccess = "access"

// Claims are those of a pass. The subject is the user, or the place of somebody unknown; the id is of the place. In a token for clients of
// AWS Virtual Waiting Room both are the place's token.
type Claims struct {
	jwt.Claims

	Use      string `json:"token_use"`
	Position int64  `json:"queue_position"`
	User     string `json:"user,omitempty"` // in a token for clients of AWS, and of a user whose name is the id
}

// Account returns the user that a pass was given to; empty: unknown.
func (c *Claims) Account() string {
	switch {
	case c.User != "":
		return c.User
	case c.Subject != c.ID:
		return c.Subject
	}
	return ""
}

// Read returns the claims of a pass of a room that is valid at the time.
func (k *Keys) Read(room, pass string, at time.Time) (Claims, error) {
	claims, err := k.verified(pass)
	if err == nil {
		err = claims.ValidateWithLeeway(jwt.Expected{Issuer: Issuer, AnyAudience: jwt.Audience{room}, Time: at}, clockSkew)
	}
	if err == nil && at.After(claims.Expiry.Time()) {
		err = jwt.ErrExpired
	}
	if err == nil && claims.Use != UseAccess {
		err = fmt.Errorf("token_use is %.20q", claims.Use)
	}
	return claims, err
}

// clockSkew is how far the clock of a server that verifies a pass may be behind that of the database, which sets its beginning.
const clockSkew = 30 * time.Second

// verified returns the claims of a pass whose signature is right.
func (k *Keys) verified(pass string) (claims Claims, err error) {
	var algorithms []jose.SignatureAlgorithm
	for i := range k.passes {
		algorithms = append(algorithms, jose.SignatureAlgorithm(k.passes[i].Algorithm))
	}
	token, err := jwt.ParseSigned(strings.TrimSpace(pass), algorithms)
	if err != nil {
		return claims, err
	}
	if kind := token.Headers[0].ExtraHeaders[jose.HeaderType]; kind != TypePass && kind != typeOld {
		return claims, fmt.Errorf("typ must be %s, got %.40q", TypePass, fmt.Sprint(kind))
	}
	for i := range k.passes {
		if key := &k.passes[i]; key.KeyID == token.Headers[0].KeyID && key.Algorithm == token.Headers[0].Algorithm {
			err = token.Claims(key.Key, &claims)
			return claims, err
		}
	}
	return claims, errors.New("its key is not known")
}
