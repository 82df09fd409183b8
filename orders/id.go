package orders

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// ID names an order: a version 8 UUID (RFC 9562) of
//
//	 1 bit   1
//	35 bits  time, in units of 64 ms since 2020: until 2089
//	12 bits  MAC
//	24 bits  number of the item, around version and variant
//	 2 bits  MAC
//	48 bits  random
//
// An id leads to its item, and so to its Redis slot. Ids cannot be guessed, and only one of 16,384 made-up ids has a valid MAC.
// The zero ID names no order.
type ID [16]byte

// IDKey recognizes the ids that an installation has issued.
type IDKey struct {
	Key []byte // of the MAC
}

const (
	idUnit  = 64 // ms
	idEpoch = 1577836800000
	idMAC   = 0xfff_0000 // within the upper half
	idMAC2  = 3 << 48    // within the lower half

	idLength = 36 // of its text
)

// New returns a random id for an order of an item.
func (k *IDKey) New(at time.Time, item int) ID {
	var id ID
	rand.Read(id[10:])
	units := uint64(at.UnixMilli()-idEpoch) / idUnit & (1<<35 - 1)
	binary.BigEndian.PutUint64(id[:8], 1<<63|units<<28|0x8000|uint64(item>>12&0xfff))
	low := uint64(item&0xfff)<<50 | binary.BigEndian.Uint64(id[8:])
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|low)
	return k.signed(id)
}

// signed returns id with its MAC. The input's length is fixed, so prefixing the key is safe.
func (k *IDKey) signed(id ID) ID {
	high, low := binary.BigEndian.Uint64(id[:8])&^idMAC, binary.BigEndian.Uint64(id[8:])&^uint64(idMAC2)
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	var buf [64]byte // for the key and the id
	sum := sha256.Sum256(append(append(buf[:0], k.Key...), id[:]...))
	mac := uint64(binary.BigEndian.Uint16(sum[:2]))
	binary.BigEndian.PutUint64(id[:8], high|mac>>4<<16)
	binary.BigEndian.PutUint64(id[8:], low|mac&3<<48)
	return id
}

// Issued reports whether this installation issued an id; one of 16,384 made-up ids passes too.
func (k *IDKey) Issued(id ID) bool {
	want := k.signed(id)
	return subtle.ConstantTimeCompare(id[:], want[:]) == 1
}

// Reference returns another name of an order, in the form of an id that is none. Only the key connects the two, and Resolve is the reverse.
func (k *IDKey) Reference(id ID) (ref ID) {
	k.referring().Encrypt(ref[:], id[:])
	return ref
}

// Resolve is the reverse of Reference.
func (k *IDKey) Resolve(ref ID) (id ID) {
	k.referring().Decrypt(id[:], ref[:])
	return id
}

func (k *IDKey) referring() cipher.Block {
	block, err := aes.NewCipher(keyhash.Derive(k.Key, "order references"))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	return block
}

// ParseID reads the canonical form, 36 characters in lower or upper case. It returns ErrUnknownOrder for any other text.
func ParseID(s string) (ID, error) {
	return parse(s, uuid.Parse)
}

func parse[T string | []byte](text T, by func(T) (uuid.UUID, error)) (ID, error) {
	if len(text) != idLength {
		return ID{}, ErrUnknownOrder
	}
	u, err := by(text)
	if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		return ID{}, ErrUnknownOrder
	}
	return ID(u), nil
}

// String returns the canonical form, in lower case.
func (id ID) String() string {
	var buf [idLength]byte
	return string(id.append(buf[:0]))
}

func (id *ID) append(b []byte) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// MarshalText returns the same text as String.
func (id ID) MarshalText() ([]byte, error) { return id.append(make([]byte, 0, idLength)), nil }

// AppendText appends the same text as String. It returns no error.
func (id ID) AppendText(b []byte) ([]byte, error) { return id.append(b), nil }

// UnmarshalText reads the same texts as ParseID.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := parse(text, uuid.ParseBytes)
	if err != nil {
		return fmt.Errorf("orders: %.40q is no order id: %w", text, err)
	}
	*id = parsed
	return nil
}

// Time is when the order was requested, by this process's estimate of Redis' clock, rounded down.
func (id ID) Time() time.Time {
	high := binary.BigEndian.Uint64(id[:8])
	return time.UnixMilli(int64(high>>28&(1<<35-1))*idUnit + idEpoch)
}

// Item returns the number of the item that was ordered.
func (id ID) Item() int {
	high := int(binary.BigEndian.Uint64(id[:8]) & 0xfff)
	low := int(binary.BigEndian.Uint64(id[8:]) >> 50 & 0xfff)
	return high<<12 | low
}
