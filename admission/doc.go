// Package admission decides whether a request may come in now, by rules that limit what one subject may do in a span of time.
//
// # Model
//
// A file holds [Rules]. A rule has a name, says which requests it matches, which subject it counts (a user, an address, …) and how
// many units the subject may take in a window of time. A [Gate] finds the rules that match a [Request], asks its [Store] about every
// window of theirs at once, and returns a [Decision]:
//
//	Request ─ match, subject ─> Tally, Tally, … ─ Store.Decide ─> Count, Count, … ─ strongest wins ─> Decision
//
// A decision is a value, also when it denies. An error means that no decision could be made.
//
// # Invariants
//
//   - Exact: no span of a window's length, wherever it begins, holds more admitted units than the limit. Each unit is kept with its
//     time (a sliding log) and counts from then on for one window.
//   - All or nothing: a request is counted in every window of every matching rule or in none. What is denied is not counted, so
//     waiting for RetryAfter is enough, however often one asks before.
//   - One clock: the store's. With Redis that is Redis' own TIME, read in the script that counts.
//   - Closed key space: a key's length does not depend on what a caller sends, subjects are keyed hashes, and every key has a time to live.
//   - A limit changed in the file acts on what has been counted already; a changed window starts anew.
//
// On a Redis Cluster, a request whose rules count several subjects needs a script for each. The first three invariants hold there too; but
// a request that a later script denies is counted for a moment before it is taken back, and may get another one denied meanwhile.
//
// # When Redis is lost
//
// A decision takes no longer than Options.Timeout, whatever Redis does. What happens then is each rule's own choice: with
// `on_store_error: open`, the default, the request is admitted and the decision is Degraded; if any matching rule says
// `closed` there is no decision, but ErrUnavailable. A limit of 0 and a cost above the limit are refused in any case: they need
// no store. The store may have counted a request whose answer came too late; it never counts one twice, as nothing is sent again.
//
// A Redis that comes back empty has forgotten what was counted: up to one more limit is then admitted within a window. A
// MemoryStore forgets with its process.
package admission
