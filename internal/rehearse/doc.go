// Package rehearse sends a crowd at a sale over HTTP and judges what came of it.
//
// A run has three parts that know nothing of each other:
//
//   - The crowd is open-loop. When each buyer clicks is fixed before the first click, from the seed alone; a server that stalls does
//     not slow the crowd down, and every latency counts from the planned moment. Buyers behave as people and browsers do: some click
//     twice, some hang up, all repeat a lost answer with the same Idempotency-Key (a few have none), and all follow their order until
//     it is confirmed. What they do with it then, their Fates, is of the seed, too: pay, early, late, twice, or while they cancel;
//     cancel and order again; or let it expire. Payments come as from a payment provider, which repeats them until they are answered.
//   - The History is everything the crowd saw: each attempt with its times and its answer, each status of each order. It can be
//     written to a file and read back.
//   - The judge compares the history with the Evidence: what the server lists afterwards, the feed of all changes, and what the server
//     says of itself (verify). It is a pure function, so that a chaos test can hand it a history of its own.
//
// In the code, the judge's material is a court. A claim is what a buyer asked under one key. Calls are attempts to order, acts are payments
// and cancels: deeds done to an order. The till is where payments are taken in; tills bound how many are under way at once.
//
// A lost answer (no answer, or any 5xx) is never counted as a refusal: the outcome is unknown until a repeat with the same key, or the
// list of orders, tells it.
//
// What the judge cannot see from outside (what Redis holds, queues, counters) it takes from verify, or says that it did not judge it.
// Where the order of events is uncertain it decides for the server, so a breach is a breach. It compares no clocks but where it says so:
// the feed's numbers tell what came after what, and the crowd's own looks when it was so at the latest.
package rehearse
