// Package bans keeps a list of banned users, addresses, networks and devices, shared by all processes of a program.
//
//	list := bans.NewList(bans.NewRedisStore(rdb), bans.Options{})
//	go list.Run(ctx)
//	_, err := list.Ban(ctx, bans.Order{Target: bans.Target{Kind: bans.IP, Value: "192.0.2.1"}, For: time.Hour})
//	if ban, left := list.Find(user, device, ip); ban != nil {
//		refuse(ban.Reason, left)
//	}
//
// # Model
//
// A [Store] holds the authoritative list. Each process holds a copy of all bans in force in a [List], so that checking a caller needs no
// round trip. A process sends its orders to the store and receives all changes since its last call in the same exchange; the store
// announces changes, so that the other processes fetch them at once. A process that misses the announcement applies an obsolete ban for
// up to five seconds.
//
// # Invariants
//
//   - A rule never shortens a ban, and refusals during a ban do not extend it. An operator's order replaces the ban in force.
//   - Times are the store's: a process computes the time left from the store's clock, and never compares two clocks of machines.
//   - A target on the [Allowlist] is not banned, and neither is this machine.
//   - Every ban and every end by an operator is one [Event] in the [History], which stores each ID once.
//
// # When Redis is lost
//
// The known bans stay in force. New orders of rules are queued, up to a thousand, and an operator's order returns
// [ErrUnavailable]. If Redis has lost its data, the processes restore the bans that they hold.
package bans
