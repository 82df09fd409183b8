package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeys    = 64
	minRSABits = 2048
)

// load replaces the keys by those of a JWK set (RFC 7517).
func (j *JWT) load(content []byte) error {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(content, &set); err != nil {
		return errors.New("auth: the file is not a JWK set") // the error would quote the file
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxKeys {
		return fmt.Errorf("auth: the JWK set has %d keys, and must have 1 to %d", len(set.Keys), maxKeys)
	}
	for i, key := range set.Keys {
		if err := usable(key); err != nil {
			return fmt.Errorf("auth: key %d of the JWK set, %.40q: %w", i, key.KeyID, err)
		}
	}
	j.keys.Store(&set)
	return nil
}

// usable returns an error unless a key is a public key of a supported algorithm. A symmetric key would turn a public file into
// a signing secret.
func usable(key jose.JSONWebKey) error {
	if key.Use != "" && key.Use != "sig" {
		return errors.New("is not for signatures")
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return fmt.Errorf("has %d bits, and must have at least %d", k.N.BitLen(), minRSABits)
		}
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return errors.New("must be on P-256")
		}
	case ed25519.PublicKey:
	default:
		return errors.New("must be a public RSA, P-256 or Ed25519 key")
	}
	return nil
}
