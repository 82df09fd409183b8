package waitingroom

import (
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/internal/pass"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// PassClaims are the claims of a pass.
type PassClaims = pass.Claims

// Issuer is the claim iss of passes and receipts.
const Issuer = pass.Issuer

// ParseSigner returns the private key in a PEM file, for Options.Signer: RSA of at least 2048 bits, or Ed25519. Its errors show
// nothing of the key.
func ParseSigner(text []byte) (crypto.Signer, error) { return pass.ParseSigner(text) }

// PublicKeys are the keys that passes are verified with: the one that signs, and then the previous one, if there is one.
func (s *Service) PublicKeys() jose.JSONWebKeySet { return jose.JSONWebKeySet{Keys: s.keys.Public()} }

// ReceiptKeys are the keys that receipts are verified with, in the same order. Those of the type JWT, from releases before, are verified
// with PublicKeys.
func (s *Service) ReceiptKeys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: s.keys.PublicReceipts()}
}

func (s *Service) placeToken(room string, p *store.Place) string {
	return s.keys.Token(room, &pass.Token{
		Number: p.Number, JoinedAt: p.JoinedAt, Quantity: p.Quantity, Lane: p.Lane, LaneNumber: p.LaneNumber, Seen: p.Seen, Subject: p.Subject,
		OfUser: p.User != "" || p.OfUser,
	})
}

// parseToken returns the place of a token, as far as the token has it, and whether the previous secret signed it; nil: it is no token.
func (s *Service) parseToken(room, token string) (p *store.Place, previous bool) {
	t, previous, ok := s.keys.ParseToken(room, token)
	if !ok {
		return nil, false
	}
	return &store.Place{
		Number: t.Number, JoinedAt: t.JoinedAt, Position: -1, Quantity: t.Quantity, LaneNumber: t.LaneNumber, Seen: t.Seen, OfUser: t.OfUser,
		Lane: t.Lane, Subject: t.Subject,
	}, previous
}

// Pass returns the pass of an admitted visitor: a JWS that a shop's own servers can verify with PublicKeys. Repeated, it is the
// same until the visitor's time is changed by a hold.
func (s *Service) Pass(p Place) (string, error) {
	id := passID(p.Room, p.Number)
	claims := PassClaims{
		Claims: jwt.Claims{Issuer: Issuer, Subject: cmp.Or(p.User, id), ID: id, Expiry: jwt.NewNumericDate(p.PassUntil)},
		Use:    pass.UseAccess,
	}
	if p.User == id { // it would read as the pass of somebody unknown
		claims.User = p.User
	}
	return s.sign(pass.TypePass, p, claims)
}

// sign completes the claims about an admitted visitor, and signs them as a text of a type.
func (s *Service) sign(kind string, p Place, c PassClaims) (string, error) {
	if p.State != StateAdmitted {
		return "", failure.New(ErrConflict, "the place is %s, and only an admitted one has a pass", p.State)
	}
	c.Audience, c.Position = jwt.Audience{p.Room}, p.Position
	c.NotBefore, c.IssuedAt = jwt.NewNumericDate(p.AdmittedAt), jwt.NewNumericDate(p.AdmittedAt)
	return s.keys.Sign(kind, c)
}

// VerifyPass returns the claims of a pass of a room, if it is valid at the time, and the copy of the room in this process does
// not show that the visitor has given it up or, in a room without a sale, finished. It makes no query.
func (s *Service) VerifyPass(room, text string, at time.Time) (PassClaims, error) {
	claims, err := s.keys.Read(room, text, at)
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

func passID(room string, number int64) string { return room + "/" + strconv.FormatInt(number, 10) }

// numberOf returns the number of the place that a pass of a room, or a token for clients of AWS, was given for; 0: none.
func (s *Service) numberOf(room, id string) int64 {
	if text, ok := strings.CutPrefix(id, room+"/"); ok {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	if p, _ := s.parseToken(room, id); p != nil {
		return p.Number
	}
	return 0
}

// receipt signs that a place is in the list of the draw. It does not expire. Its audience is not that of passes, so that a server that
// verifies passes refuses it whatever else the server requires.
func (s *Service) receipt(v *view, p *store.Place) (string, error) {
	claims := map[string]any{
		"iss": Issuer, "token_use": "receipt", "aud": v.room.def.Room + "/receipt", "index": p.Number - 1, "subject": p.Subject,
		"joined_ms": p.JoinedAt,
		"leaf":      fmt.Sprintf("%x", entryOf(p).Leaf(v.room.def.Room)),
	}
	if p.Lane != "" {
		claims["lane"] = p.Lane
	}
	return s.keys.Sign(pass.TypeReceipt, claims)
}
