// Package judge compares what a crowd of buyers saw with what the server shows afterwards, and returns a Finding per invariant. It is
// pure: it makes no calls and reads no clock, so a rehearsal, a chaos test and a simulation pass it what they saw.
//
//   - The History is everything the crowd saw: each attempt with its times and its response, each status of each order.
//   - The Evidence is what the server lists afterwards, the feed of all changes, and the server's own verification (verify).
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
package judge
