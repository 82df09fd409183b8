package waitingroom

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math/bits"
	"strings"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The draw. When the room is made, a secret is drawn, and its SHA-256 published as the commitment. Everybody who joins before the start
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
// The secret is fixed before anybody joins, and the root depends on everybody, so nobody can choose a position. The exception is whoever
// knows the secret: an operator who adds places of his own until he likes the order. A draw cannot show that; docs/waiting-room.md says so.
//
// In a room with a beacon the seed depends on a public value too, which is unknown when the list ends:
//
//	seed     = SHA-256("tidegate draw with beacon\n" ‖ secret ‖ root ‖ signature of the round)

// draw is the result of a draw.
type draw struct {
	seed [sha256.Size]byte
	n    int64
}

// commitment returns what is published of the secret before the draw.
func commitment(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

// newDraw returns the draw of a list; without a beacon its signature is empty.
func newDraw(secret, root, signature []byte, n int64) *draw {
	d := &draw{n: n}
	h := sha256.New()
	if len(signature) > 0 {
		h.Write([]byte("tidegate draw with beacon\n"))
	} else {
		h.Write([]byte("tidegate draw\n"))
	}
	h.Write(secret)
	h.Write(root)
	h.Write(signature)
	h.Sum(d.seed[:0])
	return d
}

// laneSeed returns the seed of the order of a lane; that of a room without lanes is the room's.
func (d *draw) laneSeed(lane string) []byte {
	if lane == "" {
		return d.seed[:]
	}
	h := sha256.New()
	h.Write([]byte("tidegate lane\n"))
	h.Write(d.seed[:])
	h.Write([]byte(lane))
	return h.Sum(nil)
}

// entry returns the line of a place in the list, up to its position.
func (p *place) entry() string {
	text := fmt.Sprintf("%d,%s,%d", p.number-1, p.subject, p.joinedAt)
	if p.lane != "" {
		text += "," + p.lane
	}
	return text
}

// leaf returns the hash of an entry of the list.
func leaf(room, entry string) []byte {
	return rfc6962.DefaultHasher.HashLeaf([]byte(room + "\n" + strings.ReplaceAll(entry, ",", "\n")))
}

// tree computes the root of leaves that are added in order.
type tree struct {
	leaves *compact.Range
	last   []byte // leaf
}

func newTree() *tree {
	factory := &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	return &tree{leaves: factory.NewEmptyRange(0)}
}

func (t *tree) add(leaf []byte) error {
	t.last = leaf
	return t.leaves.Append(leaf, nil)
}

// size returns how many leaves were added.
func (t *tree) size() int64 { return int64(t.leaves.End()) }

func (t *tree) root() ([]byte, error) {
	if t.leaves.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	return t.leaves.GetRootHash(nil)
}

// permutation is a one-to-one map of 0..n-1 to itself: a Feistel network of ten rounds, as FF1 of NIST SP 800-38G has, of HMAC-SHA-256 on the smallest even number of bits
// that n fits in, repeated while the result is n or above. With four, the last of five visitors was last in 26 of 100 draws. Use it in one
// goroutine.
type permutation struct {
	n    uint64
	half int // bits
	mac  hash.Hash
	text [9]byte
	sum  [sha256.Size]byte
}

const rounds = 10

func newPermutation(seed []byte, n int64) *permutation {
	half := max(1, (bits.Len64(uint64(max(n-1, 0)))+1)/2)
	return &permutation{n: uint64(n), half: half, mac: hmac.New(sha256.New, seed)}
}

// round returns half the bits of HMAC(seed, round ‖ big-endian right).
func (p *permutation) round(round byte, right uint64) uint64 {
	p.text[0] = round
	binary.BigEndian.PutUint64(p.text[1:], right)
	p.mac.Reset()
	p.mac.Write(p.text[:])
	return binary.BigEndian.Uint64(p.mac.Sum(p.sum[:0])) & (1<<p.half - 1)
}

// position returns the position of a place in the list.
func (p *permutation) position(index int64) int64 {
	return p.walk(index, func(left, right uint64) (uint64, uint64) {
		for r := range byte(rounds) {
			left, right = right, left^p.round(r, right)
		}
		return left, right
	})
}

// index is the inverse of position.
func (p *permutation) index(position int64) int64 {
	return p.walk(position, func(left, right uint64) (uint64, uint64) {
		for r := range byte(rounds) {
			left, right = right^p.round(rounds-1-r, left), left
		}
		return left, right
	})
}

func (p *permutation) walk(from int64, once func(left, right uint64) (uint64, uint64)) int64 {
	x := uint64(from)
	for {
		left, right := once(x>>p.half, x&(1<<p.half-1))
		if x = left<<p.half | right; x < p.n {
			return int64(x)
		}
	}
}

// order maps the numbers of a lane to positions and back. The zero order is that of a lane whose order is that of joining.
type order struct {
	drawn int64
	perm  *permutation
}

// orders returns the orders of the lanes.
func (r *room) orders() ([]order, error) {
	all := make([]order, len(r.lanes))
	if !r.drawn() {
		return all, nil
	}
	d, err := r.result()
	if err != nil {
		return nil, err
	}
	for i, l := range r.lanes {
		all[i] = order{l.Drawn, newPermutation(d.laneSeed(l.Name), l.Drawn)}
	}
	return all, nil
}

// result returns the draw of a room that has been drawn.
func (r *room) result() (*draw, error) {
	secret, err := hex.DecodeString(r.secret)
	if err != nil {
		return nil, fmt.Errorf("waitingroom: secret of room %s: %w", r.Room, err)
	}
	root, err := hex.DecodeString(r.root)
	if err != nil || len(root) != sha256.Size {
		return nil, fmt.Errorf("waitingroom: root of room %s must be %d bytes in hexadecimal, got %q", r.Room, sha256.Size, r.root)
	}
	signature, err := hex.DecodeString(r.beacon.signature)
	if err != nil || (r.Beacon != "") != (len(signature) > 0) {
		return nil, fmt.Errorf("waitingroom: beacon of room %s is %q, and its signature %q", r.Room, r.Beacon, r.beacon.signature)
	}
	return newDraw(secret, root, signature, r.nDrawn), nil
}

// position returns the position, from 0, of a number, from 1.
func (o *order) position(number int64) int64 {
	if number <= o.drawn {
		return o.perm.position(number - 1)
	}
	return number - 1
}

// number returns the number at a position.
func (o *order) number(position int64) int64 {
	if position < o.drawn {
		return o.perm.index(position) + 1
	}
	return position + 1
}
