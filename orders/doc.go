// Package orders sells numbered units of items in sales, and stores in the
// database every order that it accepted.
//
// # Model
//
// A sale has hours, a switch and items. The stock of an item is its units
// 1..N; an order holds some of them. A reservation is an order that Redis
// accepted and the database does not have yet. An outbox entry is what makes
// it come back until the database has it.
//
//	request ─ Prepare ─ Screen ─ Reserve ──────────────► accepted (202)
//	          no I/O    memory   one script: hours, key,     │
//	                             quota, units, in-flight     ├─ enqueued, a task for many
//	                             cap, reservation, outbox    ▼
//	                                    handlers ─► committer: hundreds of orders a transaction
//	                                    sweeper ──►     │
//	                                                    ▼
//	                              row in the database ─ outbox cleared ─ told to waiters ─ task acknowledged
//
// # States
//
//	accepted ──► confirmed ──► paid | cancelled | expired
//	    └──────► rejected
//
// A status only moves forward. Accepted is in Redis, and in the memory of the
// process that accepted; every other status is a row.
//
// # What holds
//
// A unit belongs to at most one live order, because (sale, item, unit) is the
// primary key of order_units: Redis can forget everything and nothing is sold
// twice. An order that was accepted is a row exactly once, because its
// reservation and outbox entry are written with its units, in one script, and
// stay until the row is committed; delivering it twice inserts nothing. A
// refusal writes nothing. The same buyer and key get the same order, before
// every refusal.
//
// Of several that would change an order at once one wins, because the condition
// stands in the UPDATE, and every change has an event, in its transaction. Units
// of an order that ended go back to Redis through a row too, and once, because
// the order's mark at its buyer goes with them.
//
// # When Redis is lost
//
// Each sale has an epoch, which is part of its Redis keys, and each item's
// hash holds the run id of the server that it was loaded into. A missing hash,
// or another run id on any new connection, closes the sale: requests get
// ErrRecovering. A leader raises the epoch from the one it has seen, writes its
// token beside each item, and commits what it finds under earlier epochs. Every
// process that is not silent commits the orders of earlier epochs that it
// remembers, with their units, and acknowledges that in the database. Then the
// leader raises the epoch's floor (which waits for running commits and refuses
// later ones of earlier epochs), loads units, quotas and keys from the rows,
// readmits what came late, and opens the sale. Each step names the leader's
// epoch and token and is refused where the data is in another one's, so a leader
// that lost its lock undoes nothing. An order that finds no unit any more is
// written as rejected, with ReasonRecoveredLate. docs/recovery.md has the steps.
//
// A process sends heartbeats to the database, and promises orders only while it
// holds the lease that they renew. Its lease ends before others take it for
// silent.
//
// # When the database is lost
//
// Accepted orders wait in the outbox, and handlers and sweeper repeat until the
// database answers. New ones are accepted up to the item's in-flight cap, and
// for as long as the lease lasts: then requests get ErrUnavailable.
//
// A database that went back in time, as a standby that lacked the last commits,
// is noticed by what processes and Redis have seen of it. The sales are
// recovered in an epoch above all known ones, and what processes remember is
// committed again.
package orders
