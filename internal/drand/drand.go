// Package drand verifies the rounds of drand, a public source of random values: https://docs.drand.love/docs/specification. Every few
// seconds a group of organizations signs the number of a round together. A signature is unknown before most of them have signed, and
// can be verified with one public key.
package drand

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/bls"
)

// Network is a network of drand with the scheme bls-unchained-g1-rfc9380.
type Network struct {
	Name    string
	Chain   string // hash of its parameters, in hexadecimal: part of the URLs of its rounds
	Key     string // public key, in hexadecimal
	Genesis time.Time
	Period  time.Duration // between rounds
}

// Quicknet is drand's main network.
var Quicknet = Network{
	Name:    "quicknet",
	Chain:   "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971",
	Key:     "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a",
	Genesis: time.Unix(1692803367, 0).UTC(),
	Period:  3 * time.Second,
}

// RoundAt returns the first round that is signed at t or later.
func (n *Network) RoundAt(t time.Time) int64 {
	return max(0, int64((t.Sub(n.Genesis)+n.Period-1)/n.Period)) + 1
}

// TimeOf returns when a round is signed.
func (n *Network) TimeOf(round int64) time.Time {
	return n.Genesis.Add(time.Duration(round-1) * n.Period)
}

// Message returns what is signed in a round.
func Message(round int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(round)))
	return sum[:]
}

// signatureSize is that of a compressed point. The other form of the same point would give another value to whoever hashes it.
const signatureSize = 48

// Verify returns an error unless signature, in hexadecimal, is that of a round.
func (n *Network) Verify(round int64, signature string) error {
	var key bls.PublicKey[bls.KeyG2SigG1]
	text, err := hex.DecodeString(n.Key)
	if err == nil {
		err = key.UnmarshalBinary(text)
	}
	if err != nil {
		return fmt.Errorf("drand: public key of %s: %w", n.Name, err)
	}
	sig, err := hex.DecodeString(signature)
	if err != nil || len(sig) != signatureSize || !bls.Verify(&key, Message(round), sig) {
		return fmt.Errorf("drand: not the signature of round %d of %s: %.100q", round, n.Name, signature)
	}
	return nil
}

// Round is a round as relays of drand answer it.
type Round struct {
	Round     int64  `json:"round"`
	Signature string `json:"signature"`
}

const (
	relayWithin = 5 * time.Second
	maxAnswer   = 64 << 10
)

// Fetch asks relays, by their base URLs, one after the other for the signature of a round, and verifies it.
func (n *Network) Fetch(ctx context.Context, relays []string, round int64) (signature string, err error) {
	var wrong []error
	for _, relay := range relays {
		if signature, err = n.fetch(ctx, relay, round); err == nil {
			return signature, nil
		}
		wrong = append(wrong, fmt.Errorf("%s: %w", relay, err))
	}
	return "", cmp.Or(errors.Join(wrong...), errors.New("drand: no relay is known"))
}

func (n *Network) fetch(ctx context.Context, relay string, round int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, relayWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/%s/public/%d", strings.TrimSuffix(relay, "/"), n.Chain, round), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	var got Round
	if err := json.Unmarshal(body, &got); err != nil {
		return "", fmt.Errorf("not a round of drand: %w", err)
	}
	return got.Signature, n.Verify(round, got.Signature)
}
