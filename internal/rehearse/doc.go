// Package rehearse sends a crowd of buyers to a sale over HTTP and checks the results.
//
// A run has three independent parts:
//
//   - The crowd is open-loop. The time of each buyer's click is fixed before the first click, from the seed alone; a server that stalls
//     does not slow the crowd down, and every latency counts from the planned time. Buyers behave as people and browsers do: some click
//     twice, some hang up, all retry after a lost response with the same Idempotency-Key (a few have none), and all follow their order
//     until it is confirmed. What they do with it then is also drawn from the seed, by Options.Shares: pay, early, late, twice, or while
//     they cancel; cancel and order again; or let it expire. Payments come as from a payment provider, which repeats them until they are
//     answered.
//   - The History is everything the crowd saw: each attempt with its times and its response, each status of each order. It can be
//     written to a file and read back.
//   - The judge compares the history with the Evidence: what the server lists afterwards, the feed of all changes, and the server's own
//     verification (verify). It is a pure function, so that a chaos test can pass its own history.
//
// A claim is what a buyer asked for under one key. Calls are attempts to order; operations are payments and cancellations.
//
// A lost response (none, or any 5xx) is never counted as a refusal: the outcome is unknown until a repeat with the same key, or
// the list of orders, shows it.
//
// For what the judge cannot observe from outside (the content of Redis, queues, counters) it relies on verify, or reports that
// it was not judged. Where the order of events is uncertain it decides in favour of the server, so every breach is real. It
// compares no clocks unless stated otherwise: the feed's numbers give the order of changes, and the crowd's own reads give the latest
// time of each.
package rehearse
