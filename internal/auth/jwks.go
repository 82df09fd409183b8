package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidegate/tidegate/internal/input"
)

const (
	maxKeys    = 64 // usable ones: a token without a kid is tried with all of them
	minRSABits = 2048
)

// load replaces the keys by the usable ones of a JWK set. Other keys are skipped, as RFC 7517, section 5, asks for: issuers also list
// keys for encryption, and of algorithms to come. The error is for a set without a usable key; it does not quote the content.
func (j *JWT) load(content []byte) error {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil || set.Keys == nil {
		return errors.New("auth: not a JWK set: it must be a JSON object with the member keys")
	}
	usable, skipped := []jose.JSONWebKey{}, map[string]bool{}
	var first error
	for _, raw := range set.Keys {
		key, kid, err := parseKey(raw)
		if err == nil {
			usable = append(usable, key)
			continue
		}
		if first == nil {
			first = fmt.Errorf("key %q %w", kid, err)
		}
		if line := kid + ": " + err.Error(); !skipped[line] {
			if skipped[line] = true; !j.skipped[line] {
				j.log.Info("a key of the JWK set is not used", slog.String("setting", j.source.State().Setting), slog.String("kid", kid),
					slog.Any("reason", err))
			}
		}
	}
	j.skipped = skipped
	switch {
	case len(set.Keys) == 0:
		return errors.New("auth: the JWK set has no keys")
	case len(usable) == 0:
		return fmt.Errorf("auth: no key of the JWK set can be used: %w", first)
	case len(usable) > maxKeys:
		return fmt.Errorf("auth: the JWK set has %d usable keys, and must have at most %d", len(usable), maxKeys)
	}
	j.keys.Store(&usable)
	return nil
}

// parseKey returns a key and its kid, shortened. The error is for a key that is no public key for signatures of a supported algorithm. A
// symmetric key is never used: it would turn a public document into a signing secret.
func parseKey(raw json.RawMessage) (key jose.JSONWebKey, kid string, err error) {
	var more struct {
		KeyID      string   `json:"kid"`
		Operations []string `json:"key_ops"` // the library does not read it
	}
	if err := json.Unmarshal(raw, &more); err != nil {
		return key, "", errors.New("is not a JWK")
	}
	kid = input.Shortened(more.KeyID)
	if err := json.Unmarshal(raw, &key); err != nil {
		return key, kid, errors.New("is invalid, or of an unsupported type")
	}
	if key.Use != "" && key.Use != "sig" || more.Operations != nil && !slices.Contains(more.Operations, "verify") {
		return key, kid, errors.New("is not for verifying signatures")
	}
	var algorithm jose.SignatureAlgorithm
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return key, kid, fmt.Errorf("has %d bits, and must have at least %d", k.N.BitLen(), minRSABits)
		}
		algorithm = jose.RS256
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return key, kid, errors.New("must be on the curve P-256")
		}
		algorithm = jose.ES256
	case ed25519.PublicKey:
		algorithm = jose.EdDSA
	default:
		return key, kid, errors.New("must be a public RSA, P-256 or Ed25519 key")
	}
	if key.Algorithm != "" && key.Algorithm != string(algorithm) {
		return key, kid, fmt.Errorf("is for the algorithm %q, and must be for %s", input.Shortened(key.Algorithm), algorithm)
	}
	return key, kid, nil
}
