// Package login protects logins against password guessing. It counts failed logins, demands CAPTCHAs, delays, denies and bans addresses,
// by the rules in the section login of the rules file, which rules.Load checks if it gets [Section].
//
//	throttle, err := login.New(login.NewRedisStore(rdb), rules, login.Options{Secret: secret})
//	d, err := throttle.Reserve(ctx, login.Attempt{Name: name, IP: ip})
//	if d.Action == login.Allow {
//		_, err = throttle.Settle(ctx, d.ID, check(name, password)) // login.Success or login.Failure
//	}
//
// # Two calls
//
// Before the password is checked, Throttle.Reserve decides and, if it allows, counts the attempt as a pending failure. After the check,
// Throttle.Settle reports the result:
//
//	          Reserve                     Settle
//	allowed ───────────▶ pending ─────┬─ success ─▶ taken back; pair and device counters are cleared
//	challenge, delay, deny: nothing   ├─ error ───▶ taken back
//	is counted                        └─ failure, or nothing for 30 s ─▶ failed
//
// So concurrent guesses each use up one attempt, and none slips through between checking and counting. Pending attempts are never
// penalized: when pending attempts use up the limit, new ones get `delay` for one second. A user who logs in on
// two devices at once, and an office where everyone logs in at nine, are not refused.
//
// # What is counted
//
// Failures are counted by name, by name and address, by address (IPv6: /64), by network (IPv6: /48) and by device token, and different
// failing names by address. Each factor has separate counters, so that guessing one-time codes does not use up the attempts for the
// password. A success takes back its own attempt, and clears the counters of the pair of name and address and of the device. It never
// clears the address, because an attacker could log in to their own account in between, nor the name, which others may be guessing.
//
// # Escalation
//
// allow → challenge → delay → deny → ban of the address; a device token can be revoked. The strongest exceeded rule decides. No
// rule denies a name, because any stranger could then lock out its owner. A delay of a name applies to addresses with two
// failures for it in a day. These addresses share one attempt per delay. An attempt from any other address only has to solve the
// CAPTCHA. Failures during a denial are not counted, so that it ends.
//
// A success issues a device token, to be kept in a cookie, which is valid for the same factor of the same name. Its holder is subject
// only to the token's own counter and to bans: while the name is attacked from a thousand addresses, its owner can still log in.
// By the default rules five consecutive failures revoke the token; its holder is then treated like any other client.
//
// # Invariants
//
//   - concurrent attempts never exceed the limit, across all processes
//   - an attempt counts once, whatever is resent, and is settled once
//   - existing and unknown names get the same code path, timing and answers: this package cannot tell them apart
//   - the store contains only keyed hashes: no name, no address and no device token
//
// # When Redis is lost
//
// If the store is unavailable or too slow, this process decides with half the limits (Decision.Degraded) and asks the store again a
// second later. Attempts are never let through unchecked. Pending attempts lapse here after two seconds, because most of them are settled
// in other processes. Solutions of a CAPTCHA cannot be verified in this time, because their use cannot be recorded; a challenged attempt
// gets ErrUnavailable. After Redis has lost its data the failures are gone, but not the bans, which processes restore. A store whose
// answer comes too late may have counted an attempt that is never settled.
//
// All states are in one slot of a cluster, because an attempt counts in several of them atomically: some 50,000 attempts a second on one
// server.
package login
