package pass

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// Token is what the token of a place contains: all of the place that never changes, and how far its visitor has seen the queue move.
type Token struct {
	Number, JoinedAt int64
	Quantity         int
	Lane             string
	LaneNumber       int64
	Seen             int64
	Subject          string
	OfUser           bool // the place is a user's
}

// Token returns a text that finds a place without a lookup, with a MAC. It gives no right that the subject does not have, except
// to an unknown visitor, who is identified by it.
func (k *Keys) Token(room string, t *Token) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(t.Number))
	text = binary.BigEndian.AppendUint64(text, uint64(t.JoinedAt))
	text = binary.BigEndian.AppendUint32(text, uint32(t.Quantity))
	text = binary.BigEndian.AppendUint64(text, uint64(t.LaneNumber))
	text = binary.BigEndian.AppendUint64(text, uint64(t.Seen))
	kind := ofStranger
	if t.OfUser {
		kind = ofUser
	}
	text = append(text, kind)
	text = append(append(text, byte(len(t.Lane))), t.Lane...)
	text = append(text, t.Subject...)
	mac := k.token.MAC(room + "\n" + string(text))
	return base64.RawURLEncoding.EncodeToString(append(text, mac[:]...))
}

// Whose place a token is of.
const (
	ofStranger byte = iota
	ofUser
)

// ParseToken returns what a token of a room contains; ok is false for any other text.
func (k *Keys) ParseToken(room, token string) (t Token, ok bool) {
	const head = 8 + 8 + 4 + 8 + 8 + 1 + 1
	raw, err := keyhash.Decode(base64.RawURLEncoding, token)
	if err != nil || len(raw) <= head+len(keyhash.Digest{}) {
		return t, false
	}
	text, given := raw[:len(raw)-len(keyhash.Digest{})], raw[len(raw)-len(keyhash.Digest{}):]
	for _, key := range [...]*keyhash.Key{k.token, k.previous} {
		if key != nil && !ok {
			mac := key.MAC(room + "\n" + string(text))
			ok = hmac.Equal(mac[:], given)
		}
	}
	if !ok {
		return t, false
	}
	rest := string(text[head:])
	n := min(int(text[head-1]), len(rest))
	return Token{
		Number: int64(binary.BigEndian.Uint64(text)), JoinedAt: int64(binary.BigEndian.Uint64(text[8:])),
		Quantity: int(binary.BigEndian.Uint32(text[16:])), LaneNumber: int64(binary.BigEndian.Uint64(text[20:])),
		Seen:   int64(binary.BigEndian.Uint64(text[28:])),
		OfUser: text[36] == ofUser, Lane: rest[:n], Subject: rest[n:],
	}, true
}
