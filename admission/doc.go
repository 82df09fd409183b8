// Package admission decides whether to admit a request, by rules that limit what a subject may do in a window of time.
//
//	rdb, err := redisclient.Open(url)
//	set := admission.Rules(rules.Rule{Name: "api", Subject: rules.User, Limit: 100, Window: time.Minute})
//	gate, err := admission.New(rdb, set, admission.Options{Secret: key})
//	d, err := gate.Charge(ctx, admission.Request{User: "ann", Route: "/buy"}) // d.Admitted, d.RetryAfter
//
// # Model
//
// Rules are built in Go, with [Rules], or read from a file, with rules.Load. A rule has a name, conditions that select requests,
// the subject that it counts (a user, an address, …), the number of units that the subject may take in a window of time, and the
// action on excess. A [Gate] finds the rules that match a [Request] and asks its store about all of their windows in one call:
//
//	Request ─ bans ─ rules match ─ deny cache ─> Tally, Tally, … ─ Store.Decide ─> Count, Count, … ─ strongest wins ─> Decision
//	          └──── in the process: no round trip ────┘             └ one script for each slot ┘
//
// A denial is a value, not an error. An error means that no decision could be made. The strongest action of all rules that
// refuse wins: ban, deny, challenge. A direct rule decides at once: `allow` skips the
// rules below it, `deny` and `challenge` are final.
//
// Besides [Gate.Charge] there are [Gate.Check], which counts nothing, [Gate.Refund], [Gate.Reset] and [Gate.Explain].
//
// # Invariants
//
//   - Each algorithm states its guarantee. [store.SlidingLog] is exact: no span of a window's length, wherever it begins, holds more
//     admitted units than the limit.
//   - All or nothing: a request is counted in every window of every matching rule above the first direct one, or in none. Denied
//     requests are not counted, so waiting for RetryAfter is enough, however often the caller retries before. Rules with
//     `count_rejected` are the exception.
//   - One clock: the store's. With Redis that is Redis' own TIME, read in the script that counts. For calendar windows this process
//     supplies the zone and the store the time.
//   - Once: a request with an ID is charged once and refunded once, however often it is sent within a minute.
//   - Closed key space: a key's length does not depend on what a caller sends, subjects are keyed hashes, and every key has a time to live.
//   - A changed limit applies to units counted before the change. A changed window, algorithm or subject starts from zero.
//
// On a Redis Cluster, one script runs for each subject. If a later one denies the request, the units counted by earlier ones are refunded.
// Until then another request may be denied.
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
// A decision takes at most Options.Timeout, whatever Redis does. After five consecutive failures the gate tries the store at most
// once every 500 ms. Each rule chooses what happens while the store is unavailable: with `on_store_error: open`, the default, the
// request is admitted and the decision is Degraded; with `local` it is counted in this process, against its share of the limit;
// if any matching rule is `closed`, the result is ErrUnavailable. A limit of 0, a cost above the limit and a ban are refused in
// any case, because they need no store. A store whose reply came too late may have counted the request. It never counts a request
// twice, because nothing is sent again.
//
// If Redis restarts empty, the counts are lost: a subject may then use its limit once more in the current window. The processes
// restore the bans that they hold. A memorystore.Store loses its data with its process.
package admission
