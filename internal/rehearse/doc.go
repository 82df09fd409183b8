// Package rehearse sends a crowd at a sale over HTTP and judges what came of it.
//
// A run has three parts that know nothing of each other:
//
//   - The crowd is open-loop. When each buyer clicks is fixed before the first click, from the seed alone; a server that stalls does
//     not slow the crowd down, and every latency counts from the planned moment. Buyers behave as people and browsers do: some click
//     twice, some hang up, all repeat a lost answer with the same Idempotency-Key, and all follow their order until it is confirmed.
//   - The History is everything the crowd saw: each attempt with its times and its answer, each status of each order. It can be
//     written to a file and read back.
//   - The judge compares the history with what the server lists afterwards and with what the server says of itself (verify). It is a
//     pure function, so that a chaos test can hand it a history of its own.
//
// A lost answer (no answer, or any 5xx) is never counted as a refusal: the outcome is unknown until a repeat with the same key, or the
// list of orders, tells it.
//
// What the judge cannot see from outside (what Redis holds, queues, payments) it takes from verify, or says that it did not judge it.
// Where the order of events is uncertain it decides for the server, so a breach is a breach.
package rehearse
