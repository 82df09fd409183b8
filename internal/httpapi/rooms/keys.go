package rooms

import (
	"context"
	"encoding/json"

	"github.com/go-jose/go-jose/v4"
)

// Keys returns the keys that passes are verified with.
func (h *Visitors) Keys(context.Context, *struct{}) (*keysOutput, error) {
	return publish(h.Rooms.PublicKeys())
}

// ReceiptKeys returns the keys that receipts are verified with. They are apart from those of passes, so that a server that verifies passes
// never uses one of them.
func (h *Visitors) ReceiptKeys(context.Context, *struct{}) (*keysOutput, error) {
	return publish(h.Rooms.ReceiptKeys())
}

func publish(set jose.JSONWebKeySet) (*keysOutput, error) {
	text, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{CacheControl: "max-age=300"}
	return out, json.Unmarshal(text, &out.Body)
}

type keysOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Keys []KeyView `json:"keys"`
	} `nameHint:"KeySet"`
}

// KeyView is a public key as a JWK (RFC 7517, RFC 7518, RFC 8037).
type KeyView struct {
	_ struct{} `additionalProperties:"true"`

	Use string `json:"use" enum:"sig"`
	Kty string `json:"kty" enum:"OKP,RSA"`
	Kid string `json:"kid" doc:"Named by the header of what the key has signed"`
	Alg string `json:"alg" enum:"EdDSA,RS256"`
	Crv string `json:"crv,omitempty" enum:"Ed25519" doc:"Of kty OKP"`
	X   string `json:"x,omitempty" doc:"Of kty OKP"`
	N   string `json:"n,omitempty" doc:"Of kty RSA"`
	E   string `json:"e,omitempty" doc:"Of kty RSA"`
}
