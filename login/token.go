package login

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// An attemptID contains everything needed to settle an attempt, so that a reservation writes only counts. It is signed: only reserved
// attempts can be settled. It contains only what the caller of Reserve passed in, or gets as the device token.
type attemptID struct {
	at      int64 // µs, on the store's clock
	nonce   digest
	name    digest
	ip      netip.Addr
	factor  string
	device  string // id of the device token that was sent; empty: none, or an invalid one
	byToken bool   // counted by the device token
	inLocal bool   // counted in this process while the store was unavailable
	renew   bool   // success issues a new device token
	foreign bool   // the device token is signed with the other secret
}

const (
	attemptVersion = 1
	deviceVersion  = 2
	macSize        = 16
	fixedID        = 1 + 1 + 8 + 16 + 16 + 16 + 1 // version, flags, at, nonce, name, address, length of the factor
)

func (k *keyring) sign(b []byte) string {
	mac := k.hash("token", string(b))
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:]...))
}

// verify checks a token from sign and returns its content.
func (k *keyring) verify(token string, longest int) ([]byte, bool) {
	if len(token) > longest {
		return nil, false
	}
	b, err := keyhash.DecodeRawURL(token)
	if err != nil || len(b) <= macSize {
		return nil, false
	}
	b, given := b[:len(b)-macSize], b[len(b)-macSize:]
	mac := k.hash("token", string(b))
	return b, hmac.Equal(given, mac[:])
}

const maxAttemptID = 256

func (k *keyring) attemptToken(id *attemptID) string {
	var flags byte
	for bit, is := range [...]bool{id.byToken, id.inLocal, id.renew, id.foreign} {
		if is {
			flags |= 1 << bit
		}
	}
	ip := id.ip.As16()
	b := append(make([]byte, 0, fixedID+len(id.factor)+len(id.device)+macSize), attemptVersion, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(id.at))
	b = append(b, id.nonce[:]...)
	b = append(b, id.name[:]...)
	b = append(b, ip[:]...)
	b = append(b, byte(len(id.factor)))
	b = append(b, id.factor...)
	return k.sign(append(b, id.device...))
}

func (k *keyring) parseAttempt(token string) (*attemptID, error) {
	b, ok := k.verify(token, maxAttemptID)
	if !ok || len(b) < fixedID || b[0] != attemptVersion || len(b) < fixedID+int(b[fixedID-1]) {
		return nil, fmt.Errorf("%w: %.40q", ErrUnknownAttempt, token)
	}
	end := fixedID + int(b[fixedID-1])
	return &attemptID{
		byToken: b[1]&1 != 0, inLocal: b[1]&2 != 0, renew: b[1]&4 != 0, foreign: b[1]&8 != 0,
		at: int64(binary.BigEndian.Uint64(b[2:])), nonce: digest(b[10:]), name: digest(b[26:]),
		ip: netip.AddrFrom16([16]byte(b[42:])).Unmap(), factor: string(b[fixedID:end]), device: string(b[end:]),
	}, nil
}

// A device token proves that its holder has passed this factor with this name before. It covers only one factor: a client that has passed
// the password must pass the one-time code as any other client. It does not reveal the name.
//
//	version, id (12 bytes), keyed hash of name and factor, end of its life (unix seconds, 4 bytes), and the signature of these
const (
	deviceIDSize = 12
	deviceSize   = 1 + deviceIDSize + 16 + 4
	maxDevice    = 128 // characters
)

func (k *keyring) deviceToken(id string, name digest, factor string, ends time.Time) string {
	owner := k.hash("device of", string(name[:]), factor)
	b := append(append(make([]byte, 0, deviceSize+macSize), deviceVersion), id...)
	b = append(b, owner[:]...)
	return k.sign(binary.BigEndian.AppendUint32(b, uint32(ends.Unix())))
}

// parseDevice returns the id in a device token for a factor of name, and when it expires; ok is false if the token is invalid or of
// another name.
func (k *keyring) parseDevice(token string, name digest, factor string) (id string, ends time.Time, ok bool) {
	b, ok := k.verify(token, maxDevice)
	if !ok || len(b) != deviceSize || b[0] != deviceVersion || digest(b[1+deviceIDSize:]) != k.hash("device of", string(name[:]), factor) {
		return "", time.Time{}, false
	}
	return string(b[1 : 1+deviceIDSize]), time.Unix(int64(binary.BigEndian.Uint32(b[deviceSize-4:])), 0), true
}
