// Package waitingroom queues people for a sale, or for anything that takes a limited number at a time.
//
//	rooms := waitingroom.New(waitingroom.Postgres(db), waitingroom.Options{Secret: key, Stock: shop})
//	g.Go(func() error { return rooms.Run(ctx) })
//	place, refusal, err := rooms.Join(ctx, "shoes", waitingroom.Visitor{User: "ann"}, 1)
//	place, err = rooms.Place(ctx, "shoes", waitingroom.Visitor{User: "ann"})
//	place, refusal, err = rooms.Claim(ctx, "shoes", waitingroom.Visitor{User: "ann"})
//
// # Model
//
// A room has a mode, a start, and bounds: a rate of claimed turns, a capacity, and the stock of an item if it belongs to a sale.
// A visitor has one place in it, whatever the tab or the device, because (room, subject) is unique in the database.
//
//	gathering ──draw──► waiting ──cursor──► turn ──claim──► admitted ──order──► done
//	                       │                  │                │
//	                       └──────── left ────┴──── lapsed ────┘        barred, turned_away
//
// Waiting, turn, lapsed and turned_away are computed from the position, the cursor and the clock: nothing is written for the people who
// wait. A position never rises. In mode draw, those who joined before the start are permuted with a seed that is computed at the start
// (package draw). Everybody else is placed in the order of joining.
//
// # What holds
//
// A place is committed in the database before Join returns it, so neither the loss of Redis nor of any process loses a place or changes
// the order. The numbers are given under the lock of one row, so if one join completed before another began, it has the lower number.
//
// A turn is given only when the bounds allow it, in one transaction that locks the room. Any process may do that. No leader is
// needed, because each reads under the lock what the others wrote. With the strict bound, the units of all turns that can still be
// claimed, and of all passes that have not been used, never exceed the units that are free: a turn that is claimed in time gets a unit.
//
// Claim writes the pass to the database, and then to Redis beside the item. The script that reserves units reads it there, so no request
// bypasses an open room. If Redis has lost a pass, Restore writes it again at the user's next order.
//
// # Rest
//
// A room in which nothing can move, and for which no visitor asks, rests: it costs no transaction, and its stock is read every ten seconds.
// The next request for it, or a change that another process has made, ends the rest.
//
// # Clock
//
// All times are of the database's clock. A claim window and a pass are measured in room time, which stands still while the room
// is held, while its stock cannot be read, while it rests, and while no process runs.
package waitingroom
