package core

import (
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/orders"
)

// The places of an item's keys in what itemKeys returns, which is the order in
// which the scripts declare them.
const (
	ItemKey = iota
	ReturnedKey
	PendingKey
	OutboxKey
	RequestKey
	BuyersKey
	holdersKey
	turnsKey
)

// ItemKeys are the keys of one item in one epoch. They share the hash tag {sale:item}, so one script may
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
func (c *Core) ItemKeys(sale, item string, epoch int64) []string {
	prefix := c.Namespace + ":{" + sale + ":" + item + "}:" + strconv.FormatInt(epoch, 10) + ":"
	return []string{
		ItemKey: prefix + "item", ReturnedKey: prefix + "returned", PendingKey: prefix + "pending", OutboxKey: prefix + "outbox",
		RequestKey: prefix + "keys", BuyersKey: prefix + "buyers", holdersKey: prefix + "holders", turnsKey: prefix + "turns",
	}
}

// Sentinel is the element that every collection has: a field with an empty value, a member, with the score +inf in the outbox, and the
// first buyer of the list.
const Sentinel = "-"

// LeadKey holds the leader of the latest epoch that the item was loaded for: HASH epoch, token. It is in the item's slot, does
// not depend on the epoch, and expires with the memory of the sale.
func (c *Core) LeadKey(sale, item string) string {
	return c.Namespace + ":{" + sale + ":" + item + "}:lead"
}

// LastEventKey holds the newest order event that any process saw committed. STRING "sequence order", for a day.
func (c *Core) LastEventKey() string { return c.Namespace + ":last-event" }

const LastEventFor = 24 * time.Hour

// databaseKey holds the identity of the database that the namespace belongs to. STRING "id system/oid", without an expiry.
func databaseKey(namespace string) string { return namespace + ":database" }

// ProbeKey is written to test whether the server of an item accepts writes. STRING, for a second.
func (c *Core) ProbeKey(sale, item string) string {
	return c.Namespace + ":{" + sale + ":" + item + "}:probe"
}

const ProbeFor = time.Second

// NotificationChannel is the channel on which processes notify each other of changes.
func (c *Core) NotificationChannel() string { return c.Namespace + ":notify" }

// CommitterChannel is that of processes that only commit: notifications of orders and units would wake them for nothing.
func (c *Core) CommitterChannel() string { return c.Namespace + ":notify-committers" }

// VerifyRoundKey holds the results of the last verification of the sales. STRING, JSON of a verifyRound, until it is out of date.
func (c *Core) VerifyRoundKey() string { return c.Namespace + ":verified" }

// QueueName is one of the queues that accepted orders wait in.
func (c *Core) QueueName(n int) string { return c.Namespace + "-accepted-" + strconv.Itoa(n) }

// Kinds of hashed values. A user and a key of the same text have different hashes.
const (
	HashUser = 'u'
	HashKey  = 'k'
)

// HashOf returns the form in which Redis stores a buyer or a key: 22 characters whatever the input, keyed with the sale's salt.
func HashOf(salt []byte, kind byte, value string) string {
	buf := make([]byte, 0, 128)
	buf = append(buf, salt...)
	buf = append(buf, kind)
	buf = append(buf, value...)
	return keyhash.Of(buf).String()
}

const rememberFor = 7 * 24 * time.Hour // how long after a sale's end its orders' keys are remembered

// ForgetAt returns when Redis forgets the sale.
func ForgetAt(s *orders.Sale) time.Time { return s.EndsAt.Add(rememberFor) }
