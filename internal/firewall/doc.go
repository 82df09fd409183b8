// Package firewall passes bans on to a firewall: in the worker it runs the program configured in `bans: {run: …}`.
//
// # The model
//
//	ban, lift ──► store of the bans ──► History of an API ──► Asynq ──► Worker: read the store, run the program
//	                    ▲                                                 │
//	                    └─────────────────────────────────────────────────┘
//
// A task names a target whose ban has changed, but not the change. The worker reads the current state of the ban and updates the firewall
// to match. So the order, delay and number of tasks do not matter.
//
// # Why the last state wins
//
// The program runs under a permit of a semaphore with limit 1, so only one instance runs in the installation, and it need not support
// concurrency. But a permit is a lease: a worker that is paused for longer may run its program late, after another worker has applied a
// newer state. So after each run the worker reads the ban again, and runs the program again if the ban has changed. The worker that ran
// last has therefore checked the state after its run, and applied any newer one. If a worker dies before this check, its task is not
// acknowledged and another worker gets it.
//
// # Targets that a firewall must not ban
//
// See Never: a mistake must not lock out machines that everything depends on. These rules are checked for each run, not when the ban is
// made. A ban that is refused here, or held back by the breaker, is still in force in Tidegate itself.
//
// # When Redis or the program fails
//
// Without Redis the program is not run; Tidegate's own processes have the bans. A program that fails is run again, with increasing
// delays, for as long as the ban would have lasted. If the store loses its data, the gates restore the bans, and the firewall has kept
// them.
package firewall
