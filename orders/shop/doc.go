// Package shop sells numbered units of items in sales, and stores every accepted order in the database.
//
//	rdb, err := redisclient.Open("redis://localhost:6379")
//	sales, err := shop.Open(ctx, rdb, postgres.New(pool), asynqueue.New(rdb), shop.Options{})
//	g.Go(func() error { return sales.Run(ctx) })
//	err = sales.WaitReady(ctx)
//	out, err := sales.Place(ctx, orders.Request{Sale: "s", Item: "i", User: "ann"})
//	p, err := sales.Pay(ctx, out.Order.ID, "capture-1")
//
// Types without a package here, such as Sale, Order and ErrUnavailable, are those of package orders.
//
// # Model
//
// A sale has hours, a switch and items. The stock of an item is its units
// 1..N; an order holds some of them. A reservation is an order that Redis accepted and the database does not have yet. Its
// outbox entry is retried until the database has it.
//
//	request ─ Prepare ─ Screen ─ Reserve ──────────────► accepted (202)
//	          no I/O    memory   one script: hours, key,     │
//	                             quota, units, in-flight     ├─ enqueued, a task for many
//	                             cap, reservation, outbox    ▼
//	                                    handlers ─► committer: up to 500 orders a transaction
//	                                    sweeper ──►     │
//	                                                    ▼
//	                              row in the database ─ outbox cleared ─ waiters notified ─ task acknowledged
//
// # States
//
//	accepted ──► confirmed ──► paid | cancelled | expired
//	    └──────► rejected
//
// A status only moves forward. An accepted order is in Redis, and in the memory of the process that accepted it; every other
// status is a row in the database.
//
// # What holds
//
// A unit belongs to at most one live order, because (sale, item, unit) is the primary key of order_units: even the loss of
// Redis cannot sell a unit twice. An accepted order becomes a row exactly once, because its reservation and outbox entry are
// written with its units, in one script, and stay until the row is committed; delivering it twice inserts nothing. A refusal
// writes nothing. Requests with the same buyer and key get the same order, even when a new request would be refused.
//
// Each change is a conditional UPDATE, so only one of several concurrent changes succeeds. Every change writes an event in
// its transaction. Units of an order that ended are returned to Redis through a database row too, and only once, because the
// same script removes the order from its buyer's entry.
//
// # When Redis is lost
//
// Each sale has an epoch, which is part of its Redis keys, and each item's
// hash holds the run id of the server that it was loaded into. A missing hash,
// or another run id on any new connection, closes the sale: requests get
// ErrRecovering. A leader increments the epoch by a compare-and-set, writes its
// token beside each item, and commits what it finds under earlier epochs. Every process that is not silent commits the orders
// of earlier epochs that it remembers, with their units, and acknowledges that in the database. Then the leader raises the
// epoch's floor (which waits for running commits and refuses later ones of earlier epochs), loads units, quotas and keys from
// the rows, reserves late orders again, and opens the sale. Each step carries the leader's epoch and token, and is refused when the
// data belongs to another leader, so a leader that lost its lock undoes nothing. An order for which no unit is left is written
// as rejected, with ReasonRecoveredLate. docs/recovery.md has the steps.
//
// A process sends heartbeats to the database, and accepts orders only while it holds the lease that they renew. The lease ends
// before other processes consider it silent.
//
// # When the database is lost
//
// Accepted orders wait in the outbox, and handlers and sweeper retry until the database answers. New orders are accepted
// until the item's in-flight cap is reached or the lease ends. After that, requests get ErrUnavailable.
//
// Workers prove every few seconds that orders can be committed, unless they commit some, and report it with their heartbeats. When no
// worker has for 30 s, requests get ErrUnavailable too.
//
// A database that went back in time, such as a standby that lacked the last commits, is detected by comparing it with what
// processes and Redis have seen of it. The sales are recovered in an epoch above all known ones, and the orders that processes
// remember are committed again.
package shop
