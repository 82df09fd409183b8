// Package admission decides whether a request may come in now, by rules that limit what one subject may do in a span of time.
//
// # Model
//
// A file holds [Rules]. A rule has a name, says which requests it matches, which subject it counts (a user, an address, …), how
// many units the subject may take in a window of time, and what happens to who takes more. A [Gate] finds the rules that match a
// [Request] and asks its [Store] about every window of theirs at once:
//
//	Request ─ bans ─ rules match ─ deny cache ─> Tally, Tally, … ─ Store.Decide ─> Count, Count, … ─ strongest wins ─> Decision
//	          └──── in the process: no round trip ────┘             └ one script for each slot ┘
//
// A decision is a value, also when it denies. An error means that no decision could be made. The strongest action of all rules that
// refuse wins: ban, deny, challenge. A direct rule that allows ends the search.
//
// Besides [Gate.Charge] there are [Gate.Check], which counts nothing, [Gate.Refund], [Gate.Reset] and [Gate.Explain].
//
// # Invariants
//
//   - By its algorithm's own definition no window admits more than its limit. A [SlidingLog] is exact: no span of a window's length,
//     wherever it begins, holds more admitted units than the limit.
//   - All or nothing: a request is counted in every window of every matching rule or in none. What is denied is not counted, so
//     waiting for RetryAfter is enough, however often one asks before. The exception is chosen by a rule: `count_rejected`.
//   - One clock: the store's. With Redis that is Redis' own TIME, read in the script that counts. Windows of the calendar take
//     their zone from here and their time from there.
//   - Once: a request with an ID is charged once and refunded once, however often it is sent within a minute.
//   - Closed key space: a key's length does not depend on what a caller sends, subjects are keyed hashes, and every key has a time to live.
//   - A limit changed in the file acts on what has been counted already; a changed window, algorithm or subject starts anew.
//
// On a Redis Cluster, a request whose rules count several subjects needs a script for each. The invariants hold there too; but
// a request that a later script denies is counted for a moment before it is taken back, and may get another one denied meanwhile.
//
// # What a process remembers
//
// Bans in force, all of them: a banned caller costs no round trip. Denials, for a second at most: who was just refused is refused
// again without asking. A refund, a reset or a lifted ban is announced to all processes and ends what they remember; who misses the
// announcement is wrong for a second about a denial, and for five about a ban. Refusals that never reached the store are counted there
// once a second by rules that count them. All of this is the work of [Gate.Run].
//
// # When Redis is lost
//
// A decision takes no longer than Options.Timeout, whatever Redis does, and after five failures in a row only one request in
// half a second tries. What happens then is each rule's own choice: with `on_store_error: open`, the default, the request
// is admitted and the decision is Degraded; with `local` it is counted in this process, against its part of the limit; if any
// matching rule says `closed` there is no decision, but ErrUnavailable. A limit of 0, a cost above the limit and a ban are refused in any
// case: they need no store. The store may have counted a request whose answer came too late; it never counts one twice, as
// nothing is sent again.
//
// A Redis that comes back empty has forgotten what was counted: up to one more limit is then admitted within a window. Bans
// it gets back from the processes that know them. A MemoryStore forgets with its process.
package admission
