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
	text := make([]byte, 0, tokenHead+len(t.Lane)+len(t.Subject)+len(keyhash.Digest{}))
	text = binary.BigEndian.AppendUint64(text, uint64(t.Number))
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
	mac := k.token.MAC(room, "\n", string(text))
	return base64.RawURLEncoding.EncodeToString(append(text, mac[:]...))
}

// tokenHead is the length of what stands before the lane.
const tokenHead = 8 + 8 + 4 + 8 + 8 + 1 + 1

// Whose place a token is of.
const (
	ofStranger byte = iota
	ofUser
)

// ParseToken returns what a token of a room contains. previous: the previous secret signed it, so it becomes invalid when that secret is
// dropped. ok is false for any other text.
func (k *Keys) ParseToken(room, token string) (t Token, previous, ok bool) {
	raw, err := keyhash.DecodeRawURL(token)
	end := len(raw) - len(keyhash.Digest{})
	if err != nil || end <= tokenHead {
		return t, false, false
	}
	text := string(raw[:end])
	signed := func(key *keyhash.Key) bool {
		mac := key.MAC(room, "\n", text)
		return hmac.Equal(mac[:], raw[end:])
	}
	if previous = !signed(k.token); previous && (k.previous == nil || !signed(k.previous)) {
		return t, false, false
	}
	rest := text[tokenHead:]
	n := min(int(raw[tokenHead-1]), len(rest))
	return Token{
		Number: int64(binary.BigEndian.Uint64(raw)), JoinedAt: int64(binary.BigEndian.Uint64(raw[8:])),
		Quantity: int(binary.BigEndian.Uint32(raw[16:])), LaneNumber: int64(binary.BigEndian.Uint64(raw[20:])),
		Seen:   int64(binary.BigEndian.Uint64(raw[28:])),
		OfUser: raw[36] == ofUser, Lane: rest[:n], Subject: rest[n:],
	}, previous, true
}
