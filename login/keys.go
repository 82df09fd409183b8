package login

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/names"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// All keys of this package. P stands for <namespace>:{login}: all of them have one slot, see doc.go. <x> is a keyed hash of 22 characters.
//
//	key                        type    ends                                            holds
//	Pn:<name>[:<factor>]       STRING  with the last of its rules' windows and         a state, see lua/prelude.lua
//	Pp:<name and ip>[:<…>]     STRING  penalties: of the default rules 25 minutes      the same, of an address at a name
//	Pi:<ip>[:<factor>]         STRING  after a failure, an hour for each in a row      (a pair whose name is delayed: a day)
//	Pw:<network>[:<factor>]    STRING  at a name, at most 30 days
//	Pd:<device>[:<factor>]     STRING  likewise; one that is revoked with its token
//	Po:<attempt>               STRING  2 minutes                                       how an attempt was settled: s, f or e
//	Pq:<request>               STRING  1 minute                                        the answer to a request with an id
//
// The factor password is not part of keys.

// A keyring makes keyed hashes. It is safe for concurrent use.
type keyring struct {
	prefix string
	hashes *keyhash.Key
}

func newKeyring(namespace string, secret []byte) (*keyring, error) {
	if !names.Namespace(namespace) {
		return nil, fmt.Errorf("login: Options.Namespace must be "+names.Length+" of A-Z a-z 0-9 . _ : -, got %q", namespace)
	}
	if len(secret) < keyhash.MinSecret {
		return nil, errors.New("login: Options.Secret must have at least 16 random bytes")
	}
	return &keyring{prefix: namespace + ":{login}:", hashes: keyhash.New(keyhash.Derive(secret, "tidegate login"))}, nil
}

type digest = keyhash.Digest

// hash returns the keyed hash of parts. The first part is the type of the others.
func (k *keyring) hash(parts ...string) digest { return k.hashes.Hash(parts...) }

func (k *keyring) name(name string) digest { return k.hash("name", name) }

func (k *keyring) record(letter string, d digest) string { return k.prefix + letter + ":" + d.String() }

// outcome returns the key for the outcome of an attempt. A later resend of a request is another attempt.
func (k *keyring) outcome(a *attemptID) string {
	return k.record("o", k.hash("outcome", string(a.nonce[:]), strconv.FormatInt(a.at, 10)))
}

// keys returns the keys of the states in which an attempt counts. device may be empty.
func (k *keyring) keys(name digest, ip netip.Addr, device, factor string) (keys [kinds]string, tag nameTag) {
	copy(tag[:], name[:])
	tail := tailOf(factor)
	keys[byName] = k.prefix + "n:" + name.String() + tail
	if ip.IsValid() {
		address := k.hash("ip", netaddr.Address(ip))
		pair := name
		for i := range pair {
			pair[i] ^= address[i] // both hashes are secret, so collisions cannot be constructed
		}
		keys[byPair] = k.prefix + "p:" + pair.String() + tail
		keys[byIP] = k.prefix + "i:" + address.String() + tail
		if network := netaddr.Network(ip); network != "" {
			keys[byNetwork] = k.prefix + "w:" + k.hash("network", network).String() + tail
		}
	}
	if device != "" {
		keys[byDevice] = k.device(device, factor)
	}
	return keys, tag
}

// device returns the key of a device token's failures.
func (k *keyring) device(device, factor string) string {
	return k.record("d", k.hash("device", device)) + tailOf(factor)
}

// tailOf returns the suffix of the keys of a factor.
func tailOf(factor string) string {
	if factor == Password {
		return ""
	}
	return ":" + factor
}
