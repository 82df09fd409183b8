// Package login keeps guessers of passwords out and owners in: it counts failed logins, asks for a CAPTCHA when it is time, slows down, denies,
// and bans addresses, by the rules of the file's section login.
//
// # Two calls
//
// Before the password is checked, Throttle.Reserve decides and, if it allows, counts the attempt as one that may fail. After the check,
// Throttle.Settle says how it ended:
//
//	          Reserve                     Settle
//	allowed ───────────▶ under way ───┬─ success ─▶ taken back; the pair and the device start anew
//	challenge, delay, deny: nothing   ├─ error ───▶ taken back
//	is counted                        └─ failure, or nothing for 30 s ─▶ failed
//
// So of guesses that are sent at once each uses up one, and none slips through between looking and counting. What is only under way punishes
// nobody: where it would be too much if all of it failed, others wait a second and ask again. A user who logs in on two devices at once, and an
// office that comes to work at nine, are not refused.
//
// # What is counted
//
// Failures of a name, of a name from one address, from an address (IPv6: its /64) and from a network (IPv6: /48), different names that failed from
// one address, and failures of a device token; each for itself by factor, so that guessing one-time codes does not use up the tries for the
// password. Success takes back its own attempt, and clears the pair of name and address and the device: never the address, where an attacker could
// log in to an account of his own in between, nor the name, which somebody else may be guessing.
//
// # Words
//
// An attempt is a unit in the states of its name, address and so on: under way (pending), or failed. A mark is what a rule remembers of a state beside units: the
// end of its penalty. A trip is a penalty as it begins. A board is the states of one attempt; its lane says which of them count: the device's, or all others.
// A unit of an address owes until the pair of name and address has been told how it ended.
//
// # The ladder
//
// allow → challenge → delay → deny → ban of the address. The strongest rule that is exceeded decides. No rule denies a name: any
// stranger could lock its owner out. A delay of a name holds back addresses that have failed at it twice within a day, all of them together;
// who comes from an address of his own solves the CAPTCHA and goes on. Failures during a denial are not counted, so that it ends.
//
// A device token is given out with a success, to be kept in a cookie, and good for the same factor of the same name. Its holder is counted by the
// token's own counter and by bans, and by nothing else: while the name is attacked from a thousand addresses, its owner logs in as ever. After five failures in a row the token is
// worth nothing; the holder is then like anybody else.
//
// # Invariants
//
//   - of n attempts at once no more than the rules leave are allowed, on all processes together
//   - an attempt counts once, whatever is resent, and is settled once
//   - the same path, time and answers for names that exist and names that do not: this package cannot tell them apart
//   - whoever reads the store learns no name, no address and no device token: it has keyed hashes
//
// # When Redis is lost
//
// A store that is away, or too slow, is stood in for by this process with half the limits (Decision.Degraded), and asked again a second later: never is
// everybody let through. What nobody settles here lapses after two seconds, since most of it is settled in other processes. Solutions of a CAPTCHA
// cannot be verified meanwhile, because nobody can tell whether they were used; who has to solve one gets ErrUnavailable. A Redis that has lost its
// memory has forgotten the failures, not the bans, which processes restore. A store that answers after its caller has given up may have counted an
// attempt that nobody settles.
//
// All states have one slot of a cluster, because an attempt counts in several of them at once: some 50,000 attempts a second on one server.
package login
