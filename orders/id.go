package orders

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// ID names an order: a version 8 UUID (RFC 9562) of 48 bits of Unix
// milliseconds, 24 bits of the item's number, and 50 random bits. Whoever
// holds an id can find its item, and so its Redis slot; nobody can guess one.
// The zero ID names no order.
type ID [16]byte

func newID(at time.Time, item int) ID {
	var id ID
	rand.Read(id[8:])
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x8000|uint64(item>>12&0xfff))
	low := uint64(item&0xfff)<<50 | binary.BigEndian.Uint64(id[8:])&(1<<50-1)
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|low)
	return id
}

// ParseID reads the canonical form, 36 characters in lower or upper case.
// It returns ErrUnknownOrder for whatever this program never issued.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return ID{}, ErrUnknownOrder
	}
	u, err := uuid.Parse(s)
	if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		return ID{}, ErrUnknownOrder
	}
	return ID(u), nil
}

// String is the canonical form, in lower case.
func (id ID) String() string { return uuid.UUID(id).String() }

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is ParseID.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return fmt.Errorf("orders: %.40q is no order id: %w", text, err)
	}
	*id = parsed
	return nil
}

// time is when the order was asked for, by Redis' clock as the process knew it.
func (id ID) time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// item is the number of the item that was ordered.
func (id ID) item() int {
	high := int(binary.BigEndian.Uint64(id[:8]) & 0xfff)
	low := int(binary.BigEndian.Uint64(id[8:]) >> 50 & 0xfff)
	return high<<12 | low
}
