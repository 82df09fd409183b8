// Package draw gives those who joined a waiting room before its start an order that no one can choose, and that anyone can
// verify. It needs no database.
//
// When the room is made, a secret is drawn, and its SHA-256 published as the commitment. Everybody who joins before the start
// becomes a leaf of a Merkle tree (RFC 6962), in the order of their numbers. At the start the list ends; its root and the secret give the
// seed, and the seed the order:
//
//	leaf i   = SHA-256(0x00 ‖ "room\nindex\nsubject\njoined_ms"), index from 0
//	root     = the Merkle tree's
//	seed     = SHA-256("tidegate draw\n" ‖ secret ‖ root)
//	position = permutation(seed, n, index)
//
// In a room with lanes a leaf ends with "\nlane", and each lane has an order of its own, of the i-th of its n places in the list:
//
//	position = permutation(SHA-256("tidegate lane\n" ‖ seed ‖ lane), n, i), i from 0
//
// The secret is fixed before anybody joins, and the root depends on everybody, so no one can choose a position. The exception is an
// operator with the secret, who could add places until the order suits. A draw cannot prove that this did not happen; see
// docs/waiting-room.md.
//
// In a room with a beacon the seed depends on a public value too, which is unknown when the list ends:
//
//	seed     = SHA-256("tidegate draw with beacon\n" ‖ secret ‖ root ‖ signature of the round)
package draw

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/transparency-dev/merkle/rfc6962"
)

// ErrInvalid is the kind of errors about a list or a beacon that is not what it should be; their text describes what is wrong.
var ErrInvalid = errors.New("draw: invalid")

// Commitment returns what is published of the secret before the draw.
func Commitment(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

// Seed gives the order of all lanes.
type Seed [sha256.Size]byte

// NewSeed returns the seed of a list with that root; without a beacon its signature is empty.
func NewSeed(secret, root, signature []byte) (s Seed) {
	h := sha256.New()
	if len(signature) > 0 {
		h.Write([]byte("tidegate draw with beacon\n"))
	} else {
		h.Write([]byte("tidegate draw\n"))
	}
	h.Write(secret)
	h.Write(root)
	h.Write(signature)
	h.Sum(s[:0])
	return s
}

// String returns the seed in hexadecimal.
func (s Seed) String() string { return hex.EncodeToString(s[:]) }

// Order returns the order of the first n places of a lane; a room without lanes has one, without a name.
func (s Seed) Order(lane string, n int64) Order {
	if lane == "" {
		return Order{n, newPermutation(s[:], n)}
	}
	h := sha256.New()
	h.Write([]byte("tidegate lane\n"))
	h.Write(s[:])
	h.Write([]byte(lane))
	return Order{n, newPermutation(h.Sum(nil), n)}
}

// Order maps the numbers of a lane to positions and back. The zero Order is the order of joining. Use it in one goroutine.
type Order struct {
	drawn int64
	perm  *permutation
}

// Drawn returns how many places were drawn; later ones follow in the order of their numbers.
func (o *Order) Drawn() int64 { return o.drawn }

// Position returns the position, from 0, of a number, from 1.
func (o *Order) Position(number int64) int64 {
	if number <= o.drawn {
		return o.perm.position(number - 1)
	}
	return number - 1
}

// Number returns the number at a position.
func (o *Order) Number(position int64) int64 {
	if position < o.drawn {
		return o.perm.index(position) + 1
	}
	return position + 1
}

// Entry is a place in the list of a draw.
type Entry struct {
	Index    int64 // from 0
	Subject  string
	JoinedMS int64  // Unix ms
	Lane     string // empty in a room without lanes
}

// String returns the entry as a line of the list, up to its position.
func (e Entry) String() string {
	text := fmt.Sprintf("%d,%s,%d", e.Index, e.Subject, e.JoinedMS)
	if e.Lane != "" {
		text += "," + e.Lane
	}
	return text
}

// Leaf returns the hash of the entry in the list of a room.
func (e Entry) Leaf(room string) []byte { return leaf(room, e.String()) }

func leaf(room, entry string) []byte {
	return rfc6962.DefaultHasher.HashLeaf([]byte(room + "\n" + strings.ReplaceAll(entry, ",", "\n")))
}
