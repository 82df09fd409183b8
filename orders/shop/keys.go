package shop

import (
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/orders"
)

// The places of an item's keys in what itemKeys returns, which is the order in
// which the scripts declare them.
const (
	itemKey = iota
	returnedKey
	pendingKey
	outboxKey
	requestKey
	buyersKey
	holdersKey
	turnsKey
)

// itemKeys are the keys of one item in one epoch. They share the hash tag {sale:item}, so one script may
// touch them all on a cluster. Names of sales and items cannot contain braces
// or colons. All expire with the memory of the sale, seven days after its end. Each collection has the sentinel as an element, so that
// none is ever empty: what is missing was lost.
//
//	item      HASH  the definition, next (the last unit sold first-hand), server (run id of the one that was loaded; versions
//	                before wrote it as run), writes and writes: with the name of a process (counts of
//	                the changes to the orders and units of the item: all, and those by that process),
//	                recovering (token of the leader that closed it)
//	returned  SET   units given back
//	pending   HASH  order id → reservation that is not committed
//	outbox    ZSET  order id → when it was accepted or last claimed, ms
//	keys      HASH  buyer's hash + key's hash → order id and quantity
//	buyers    HASH  buyer's hash → units held, and the orders that hold them, the latest last
//	holders   LIST  the buyers of all reservations in order, 11 characters of their hash each
//	turns     HASH  of an item with a waiting room: buyer's hash → room, until when (ms) and how many units the buyer may order, or
//	                room, "used" and the order id, or room, "revoked" and the time of the admission
func (c *core) itemKeys(sale, item string, epoch int64) []string {
	prefix := c.namespace + ":{" + sale + ":" + item + "}:" + strconv.FormatInt(epoch, 10) + ":"
	return []string{
		itemKey: prefix + "item", returnedKey: prefix + "returned", pendingKey: prefix + "pending", outboxKey: prefix + "outbox",
		requestKey: prefix + "keys", buyersKey: prefix + "buyers", holdersKey: prefix + "holders", turnsKey: prefix + "turns",
	}
}

// sentinel is the element that every collection has: a field with an empty value, a member, with the score +inf in the outbox, and the
// first buyer of the list.
const sentinel = "-"

// leadKey holds the leader of the latest epoch that the item was loaded for: HASH epoch, token. It is in the item's slot, does
// not depend on the epoch, and expires with the memory of the sale.
func (c *core) leadKey(sale, item string) string {
	return c.namespace + ":{" + sale + ":" + item + "}:lead"
}

// lastEventKey holds the newest order event that any process saw committed. STRING "sequence order", for a day.
func (c *core) lastEventKey() string { return c.namespace + ":last-event" }

const lastEventFor = 24 * time.Hour

// databaseKey holds the identity of the database that the namespace belongs to. STRING "id system/oid", without an expiry.
func databaseKey(namespace string) string { return namespace + ":database" }

// probeKey is written to test whether the server of an item accepts writes. STRING, for a second.
func (c *core) probeKey(sale, item string) string {
	return c.namespace + ":{" + sale + ":" + item + "}:probe"
}

const probeFor = time.Second

// notificationChannel is the channel on which processes notify each other of changes.
func (c *core) notificationChannel() string { return c.namespace + ":notify" }

// verifyRoundKey holds the results of the last verification of the sales. STRING, JSON of a verifyRound, until it is out of date.
func (c *core) verifyRoundKey() string { return c.namespace + ":verified" }

// queueName is one of the queues that accepted orders wait in.
func (c *core) queueName(n int) string { return c.namespace + "-accepted-" + strconv.Itoa(n) }

// Kinds of hashed values. A user and a key of the same text have different hashes.
const (
	hashUser = 'u'
	hashKey  = 'k'
)

// hashOf returns the form in which Redis stores a buyer or a key: 22 characters whatever the input, keyed with the sale's salt.
func hashOf(salt []byte, kind byte, value string) string {
	buf := make([]byte, 0, 128)
	buf = append(buf, salt...)
	buf = append(buf, kind)
	buf = append(buf, value...)
	return keyhash.Of(buf).String()
}

const rememberFor = 7 * 24 * time.Hour // how long after a sale's end its orders' keys are remembered

// forgetAt returns when Redis forgets the sale.
func forgetAt(s *orders.Sale) time.Time { return s.EndsAt.Add(rememberFor) }
