package pass

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const minRSA = 2048 // bits

// ParseSigner returns the private key in a PEM file, for signing passes: RSA of at least 2048 bits, or Ed25519. Its errors show
// nothing of the key.
func ParseSigner(text []byte) (crypto.Signer, error) {
	const right = "it must hold one private key in PEM, such as openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 or openssl " +
		"genpkey -algorithm Ed25519 makes"
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("no PEM block: %s", right)
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, fmt.Errorf("more than one PEM block: %s", right)
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("the key is encrypted: decrypt it, for example with openssl pkey")
		}
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("the key is encrypted: decrypt it, for example with openssl pkey")
	default:
		return nil, fmt.Errorf("a PEM block of type %.40q: %s", block.Type, right)
	}
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %s", right) // the parser's error may quote the key
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key cannot sign: %s", right)
	}
	_, err = algorithmOf(signer)
	return signer, err
}

// algorithmOf returns the algorithm that passes are signed with.
func algorithmOf(key crypto.Signer) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return "", fmt.Errorf("an RSA key must have at least %d bits, got %d", minRSA, bits)
		}
		return jose.RS256, nil
	}
	return "", fmt.Errorf("the key must be of RSA or Ed25519, got %T", key)
}
