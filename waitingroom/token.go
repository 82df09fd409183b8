package waitingroom

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/keyhash"
)

// keys are what the secrets give, and the keys of passes.
type keys struct {
	token    *keyhash.Key
	previous *keyhash.Key           // accepted for tokens too; nil: none
	passes   []jose.JSONWebKey      // public: that of the signer, and the previous one
	receipts []jose.JSONWebKey      // public, likewise
	signers  map[string]jose.Signer // by the type of what they sign
}

// Types of what is signed, in the header typ (RFC 8725, section 3.11): a text of one kind is never taken for one of another, also by servers
// that verify passes themselves.
const (
	typePass    = "tidegate-pass+jwt"
	typeRefresh = "tidegate-refresh+jwt"
	typeID      = "tidegate-id+jwt"
	typeReceipt = "tidegate-receipt+jwt"
	typeOld     = "JWT" // of all kinds, from processes of the release before: accepted for passes with token_use access, which expire within a day
)

// newKeys returns the keys of a service. Without keys of its own, passes are signed with the one that the secret gives.
func newKeys(opts *Options) keys {
	k := keys{token: keyhash.New(keyhash.Derive(opts.Secret, "waiting room tokens"))}
	signing, before := opts.Signer, opts.PreviousSigner
	if len(opts.PreviousSecret) > 0 {
		k.previous = keyhash.New(keyhash.Derive(opts.PreviousSecret, "waiting room tokens"))
	}
	if signing == nil {
		signing = derivedSigner(opts.Secret)
		if before == nil && len(opts.PreviousSecret) > 0 {
			before = derivedSigner(opts.PreviousSecret)
		}
	}
	for _, key := range []crypto.Signer{signing, before} {
		if key != nil {
			k.passes = append(k.passes, publicKey(key))
		}
	}
	receipts := receiptSigner(opts.Secret)
	k.receipts = append(k.receipts, publicKey(receipts))
	if len(opts.PreviousSecret) > 0 {
		k.receipts = append(k.receipts, publicKey(receiptSigner(opts.PreviousSecret)))
	}
	k.signers = map[string]jose.Signer{typeReceipt: signerOf(receipts, k.receipts[0], typeReceipt)}
	for _, kind := range []string{typePass, typeRefresh, typeID} {
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

// PublicKeys are the keys that passes are verified with: the one that signs, and then the previous one, if there is one.
func (s *Service) PublicKeys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: slices.Clone(s.keys.passes)}
}

// ReceiptKeys are the keys that receipts are verified with, in the same order. Those of the type JWT, from releases before, are verified
// with PublicKeys.
func (s *Service) ReceiptKeys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: slices.Clone(s.keys.receipts)}
}

// placeToken returns a text that finds a place without a lookup: its numbers, its subject, when it was given and how far its visitor has seen the
// queue move, with a MAC. It gives no right that the subject does not have, except to somebody unknown, who is identified by it.
func (s *Service) placeToken(room string, p *place) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(p.number))
	text = binary.BigEndian.AppendUint64(text, uint64(p.joinedAt))
	text = binary.BigEndian.AppendUint32(text, uint32(p.quantity))
	text = binary.BigEndian.AppendUint64(text, uint64(p.laneNumber))
	text = binary.BigEndian.AppendUint64(text, uint64(p.seen))
	kind := ofStranger
	if p.user != "" || p.ofUser {
		kind = ofUser
	}
	text = append(text, kind)
	text = append(append(text, byte(len(p.lane))), p.lane...)
	text = append(text, p.subject...)
	mac := s.keys.token.MAC(room + "\n" + string(text))
	return base64.RawURLEncoding.EncodeToString(append(text, mac[:]...))
}

// Whose place a token is of.
const (
	ofStranger byte = iota
	ofUser
)

// StableToken returns the token of a place without what its visitor has seen: it is the same at all times. Empty: the place has no token.
func (s *Service) StableToken(p Place) string {
	known, ok := s.parseToken(p.Room, p.Token)
	if !ok {
		return ""
	}
	known.seen = 0
	return s.placeToken(p.Room, known)
}

// parseToken returns the place of a token: all of it that never changes, and what its visitor has seen.
func (s *Service) parseToken(room, token string) (*place, bool) {
	const head = 8 + 8 + 4 + 8 + 8 + 1 + 1
	raw, err := keyhash.Decode(base64.RawURLEncoding, token)
	if err != nil || len(raw) <= head+len(keyhash.Digest{}) {
		return nil, false
	}
	text, given := raw[:len(raw)-len(keyhash.Digest{})], raw[len(raw)-len(keyhash.Digest{}):]
	ok := false
	for _, key := range [...]*keyhash.Key{s.keys.token, s.keys.previous} {
		if key != nil && !ok {
			mac := key.MAC(room + "\n" + string(text))
			ok = hmac.Equal(mac[:], given)
		}
	}
	if !ok {
		return nil, false
	}
	rest := string(text[head:])
	n := min(int(text[head-1]), len(rest))
	return &place{
		number: int64(binary.BigEndian.Uint64(text)), joinedAt: int64(binary.BigEndian.Uint64(text[8:])), position: -1,
		quantity: int(binary.BigEndian.Uint32(text[16:])), laneNumber: int64(binary.BigEndian.Uint64(text[20:])), seen: int64(binary.BigEndian.Uint64(text[28:])), ofUser: text[36] == ofUser,
		lane: rest[:n], subject: rest[n:],
	}, true
}

// PassClaims is what a pass says. The subject is the user, or the place of somebody unknown; the id is of the place. In a token of Tokens both
// are the place's token.
type PassClaims struct {
	jwt.Claims

	Use      string `json:"token_use"`
	Position int64  `json:"queue_position"`
	User     string `json:"user,omitempty"` // in a token of Tokens
}

// Account returns the user that a pass was given to; empty: unknown.
func (c *PassClaims) Account() string {
	switch {
	case c.User != "":
		return c.User
	case c.Subject != c.ID:
		return c.Subject
	}
	return ""
}

// Issuer is the claim iss of passes and receipts.
const Issuer = "tidegate"

// Pass returns the pass of an admitted visitor: a JWS that a shop's own servers can verify with PublicKeys. Repeated, it is the
// same until the visitor's time is changed by a hold.
func (s *Service) Pass(p Place) (string, error) {
	id := passID(p.Room, p.Number)
	subject := p.User
	if subject == "" {
		subject = id
	}
	return s.sign(typePass, p, PassClaims{Claims: jwt.Claims{Issuer: Issuer, Subject: subject, ID: id, Expiry: jwt.NewNumericDate(p.PassUntil)}, Use: useAccess})
}

const useAccess = "access"

// TokenOptions are in what tokens may differ from a pass.
type TokenOptions struct {
	Issuer   string        // empty: the issuer of passes, and the only one that VerifyPass accepts
	Lifetime time.Duration // from the admission on; 0, or longer than the pass: as long as the pass
}

// Tokens are three JWS in the form of AWS Virtual Waiting Room, which differ in the claim token_use and the header typ only.
type Tokens struct {
	Access, Refresh, ID string
	Until               time.Time // when they expire
}

// Tokens returns the tokens of an admitted visitor. They are signed as passes are, and the access token is one. Nothing accepts the other two.
// Repeated, they are the same, like a pass.
func (s *Service) Tokens(p Place, opts TokenOptions) (Tokens, error) {
	out := Tokens{Until: p.PassUntil}
	if until := p.AdmittedAt.Add(opts.Lifetime); opts.Lifetime > 0 && until.Before(out.Until) {
		out.Until = until
	}
	if opts.Issuer == "" {
		opts.Issuer = Issuer
	}
	id := s.StableToken(p)
	for _, t := range []struct {
		text      *string
		use, kind string
	}{{&out.Access, useAccess, typePass}, {&out.Refresh, "refresh", typeRefresh}, {&out.ID, "id", typeID}} {
		var err error
		if *t.text, err = s.sign(t.kind, p, PassClaims{
			Claims: jwt.Claims{Issuer: opts.Issuer, Subject: id, ID: id, Expiry: jwt.NewNumericDate(out.Until)}, Use: t.use, User: p.User,
		}); err != nil {
			return Tokens{}, err
		}
	}
	return out, nil
}

// sign completes the claims about an admitted visitor, and signs them as a text of a type.
func (s *Service) sign(kind string, p Place, c PassClaims) (string, error) {
	if p.State != StateAdmitted {
		return "", failure.New(ErrNotYourTurn, "the place is %s", p.State)
	}
	c.Audience, c.Position = jwt.Audience{p.Room}, p.Position
	c.NotBefore, c.IssuedAt = jwt.NewNumericDate(p.AdmittedAt), jwt.NewNumericDate(p.AdmittedAt)
	return jwt.Signed(s.keys.signers[kind]).Claims(c).Serialize()
}

// clockSkew is how far the clock of whoever verifies a pass may be behind that of the database, which says when it begins.
const clockSkew = 30 * time.Second

// VerifyPass returns what a pass of a room says, if it is valid at the time, and as far as this process knows the visitor has neither given it up nor, in a room without a sale, finished.
// It makes no query.
func (s *Service) VerifyPass(room, pass string, at time.Time) (PassClaims, error) {
	claims, err := s.readPass(pass)
	if err == nil {
		err = claims.ValidateWithLeeway(jwt.Expected{Issuer: Issuer, AnyAudience: jwt.Audience{room}, Time: at}, clockSkew)
	}
	if err == nil && at.After(claims.Expiry.Time()) {
		err = jwt.ErrExpired
	}
	if err == nil && claims.Use != useAccess {
		err = fmt.Errorf("token_use is %.20q", claims.Use)
	}
	if v := (*s.views.Load())[room]; err == nil && v != nil {
		switch number := s.numberOf(room, claims.ID); {
		case number == 0: // its id is a token of a secret that is not accepted any more
			err = errors.New("its place is not known, so it may have been given up")
		case v.revoked[number] > 0:
			err = errors.New("its place was given up or is done")
		}
	}
	if err != nil {
		return PassClaims{}, failure.New(ErrInvalid, "pass: %v", err)
	}
	return claims, nil
}

// readPass returns the claims of a pass whose signature is right.
func (s *Service) readPass(pass string) (claims PassClaims, err error) {
	var algorithms []jose.SignatureAlgorithm
	for i := range s.keys.passes {
		algorithms = append(algorithms, jose.SignatureAlgorithm(s.keys.passes[i].Algorithm))
	}
	token, err := jwt.ParseSigned(strings.TrimSpace(pass), algorithms)
	if err != nil {
		return claims, err
	}
	if kind := token.Headers[0].ExtraHeaders[jose.HeaderType]; kind != typePass && kind != typeOld {
		return claims, fmt.Errorf("typ must be %s, got %.40q", typePass, fmt.Sprint(kind))
	}
	for i := range s.keys.passes {
		if key := &s.keys.passes[i]; key.KeyID == token.Headers[0].KeyID && key.Algorithm == token.Headers[0].Algorithm {
			err = token.Claims(key.Key, &claims)
			return claims, err
		}
	}
	return claims, errors.New("its key is not known")
}

func passID(room string, number int64) string { return room + "/" + strconv.FormatInt(number, 10) }

// numberOf returns the number of the place that a pass of a room, or a token of Tokens, was given for; 0: none.
func (s *Service) numberOf(room, id string) int64 {
	if text, ok := strings.CutPrefix(id, room+"/"); ok {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	if p, ok := s.parseToken(room, id); ok {
		return p.number
	}
	return 0
}

// receipt signs that a place is in the list of the draw. It does not expire. Its audience is not that of passes, so that a server that
// verifies passes refuses it whatever else the server requires.
func (s *Service) receipt(v *view, p *place) (string, error) {
	claims := map[string]any{
		"iss": Issuer, "token_use": "receipt", "aud": v.Room + "/receipt", "index": p.number - 1, "subject": p.subject, "joined_ms": p.joinedAt,
		"leaf": fmt.Sprintf("%x", leaf(v.Room, p.entry())),
	}
	if p.lane != "" {
		claims["lane"] = p.lane
	}
	return jwt.Signed(s.keys.signers[typeReceipt]).Claims(claims).Serialize()
}
