package draw

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"
)

// permutation is a one-to-one map of 0..n-1 to itself: a Feistel network of ten rounds, as FF1 of NIST SP 800-38G has, of
// HMAC-SHA-256 on the smallest even number of bits that n fits in, repeated while the result is n or above. With four, the last
// of five visitors was last in 26 of 100 draws. Use it in one goroutine.
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
