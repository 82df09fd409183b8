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
//   - The history is everything the crowd saw. It can be written to a file and read back.
//   - Package judge compares it with the evidence that is collected from the server after the drain.
package rehearse
