// Package admission decides whether to admit a request, by rules that limit what a subject may do in a window of time.
//
// # Model
//
// [Rules] are read from a file. A rule has a name, conditions that select requests, the subject that it counts (a user, an address, …),
// the number of units that the subject may take in a window of time, and the action on excess. A [Gate] finds the rules that match a
// [Request] and asks its [Store] about all of their windows in one call:
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
//   - All or nothing: a request is counted in every window of every matching rule or in none. Denied requests are not counted, so
//     waiting for RetryAfter is enough, however often the caller retries before. Rules with `count_rejected` are the exception.
//   - One clock: the store's. With Redis that is Redis' own TIME, read in the script that counts. For calendar windows this process
//     supplies the zone and the store the time.
//   - Once: a request with an ID is charged once and refunded once, however often it is sent within a minute.
//   - Closed key space: a key's length does not depend on what a caller sends, subjects are keyed hashes, and every key has a time to live.
//   - A changed limit applies to units counted before the change. A changed window, algorithm or subject starts from zero.
//
// On a Redis Cluster, a request whose rules count several subjects needs one script for each subject. The invariants hold there too. But
// if a later script denies the request, the units counted by the earlier ones are taken back only then, and another request may be denied
// in the meantime.
//
// # What a process remembers
//
// A process holds all bans in force: refusing a banned caller needs no round trip. It holds denials for at most a second: the same
// request is refused again without asking the store. Refunds, resets and lifted bans are announced to all processes, which then drop what
// they hold. A process that misses the announcement applies an obsolete denial for up to one second, and an obsolete ban for up to five.
// If a rule counts refusals, those that never reached the store are added there once a second. [Gate.Run] does all of this.
//
// # When Redis is lost
//
// A decision takes at most Options.Timeout, whatever Redis does. After five consecutive failures only one request in half a second tries
// the store. Each rule chooses what happens while the store is unavailable: with `on_store_error: open`, the default, the request is
// admitted and the decision is Degraded; with `local` it is counted in this process, against its share of the limit; if any matching rule
// is `closed`, the result is ErrUnavailable. A limit of 0, a cost above the limit and a ban are refused in any case, because they need no
// store. A store whose reply came too late may have counted the request. It never counts a request twice, because nothing is sent again.
//
// If Redis restarts empty, the counts are lost: up to one more limit is then admitted within a window. The processes restore the bans
// that they hold. A MemoryStore loses its data with its process.
package admission
