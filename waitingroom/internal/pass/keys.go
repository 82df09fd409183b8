// Package pass signs and verifies what a waiting room gives to its visitors: tokens of places, passes, and receipts of the draw.
// It does no I/O.
package pass

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// Keys sign and verify. Make them with NewKeys; they are safe for concurrent use.
type Keys struct {
	token    *keyhash.Key
	previous *keyhash.Key           // accepted for tokens too; nil: none
	passes   []jose.JSONWebKey      // public: that of the signer, and the previous one
	receipts []jose.JSONWebKey      // public, likewise
	signers  map[string]jose.Signer // by the type of what they sign
}

// Types of what is signed, in the header typ (RFC 8725, section 3.11): a text of one kind is never taken for one of another, also
// by servers that verify passes themselves.
const (
	TypePass    = "tidegate-pass+jwt"
	TypeRefresh = "tidegate-refresh+jwt"
	TypeID      = "tidegate-id+jwt"
	TypeReceipt = "tidegate-receipt+jwt"
	// of all kinds, from processes of the release before: accepted for passes with token_use access, which expire within a day
	typeOld = "JWT"
)

// NewKeys returns the keys of a secret. Passes are signed with signing, or with the key that the secret gives if that is nil.
// What was signed with the previous secret and key is accepted; both may be absent.
func NewKeys(secret, previous []byte, signing, before crypto.Signer) *Keys {
	k := &Keys{token: keyhash.New(keyhash.Derive(secret, "waiting room tokens"))}
	if len(previous) > 0 {
		k.previous = keyhash.New(keyhash.Derive(previous, "waiting room tokens"))
	}
	if signing == nil {
		signing = derivedSigner(secret)
		if before == nil && len(previous) > 0 {
			before = derivedSigner(previous)
		}
	}
	for _, key := range []crypto.Signer{signing, before} {
		if key != nil {
			k.passes = append(k.passes, publicKey(key))
		}
	}
	receipts := receiptSigner(secret)
	k.receipts = append(k.receipts, publicKey(receipts))
	if len(previous) > 0 {
		k.receipts = append(k.receipts, publicKey(receiptSigner(previous)))
	}
	k.signers = map[string]jose.Signer{TypeReceipt: signerOf(receipts, k.receipts[0], TypeReceipt)}
	for _, kind := range []string{TypePass, TypeRefresh, TypeID} {
		k.signers[kind] = signerOf(signing, k.passes[0], kind)
	}
	return k
}

func derivedSigner(secret []byte) crypto.Signer {
	return ed25519.NewKeyFromSeed(keyhash.Derive(secret, "waiting room passes"))
}

func receiptSigner(secret []byte) crypto.Signer {
	return ed25519.NewKeyFromSeed(keyhash.Derive(secret, "waiting room receipts"))
}

// signerOf returns what signs texts of a type.
func signerOf(key crypto.Signer, public jose.JSONWebKey, kind string) jose.Signer {
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.SignatureAlgorithm(public.Algorithm), Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID},
	}, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	if err != nil {
		panic(err) // the key is of the algorithm
	}
	return signer
}

// publicKey returns the public part of a key of passes. Its id is a hash of it.
func publicKey(key crypto.Signer) jose.JSONWebKey {
	algorithm, err := algorithmOf(key)
	if err != nil {
		panic("waitingroom: Options.Signer: " + err.Error()) // ParseSigner returns no such key
	}
	text, raw := key.Public().(ed25519.PublicKey)
	if !raw {
		if text, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
			panic(err) // it is an RSA key
		}
	}
	return jose.JSONWebKey{Key: key.Public(), KeyID: keyhash.Of(text).String(), Algorithm: string(algorithm), Use: "sig"}
}

// Public returns the keys that passes are verified with: the one that signs, and then the previous one, if there is one.
func (k *Keys) Public() []jose.JSONWebKey { return slices.Clone(k.passes) }

// PublicReceipts returns the keys that receipts are verified with, in the same order.
func (k *Keys) PublicReceipts() []jose.JSONWebKey { return slices.Clone(k.receipts) }

// Sign signs claims as a text of a type.
func (k *Keys) Sign(kind string, claims any) (string, error) {
	return jwt.Signed(k.signers[kind]).Claims(claims).Serialize()
}
