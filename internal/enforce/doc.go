// Package enforce tells a firewall of bans: it runs the program that the rules name in `bans: {run: …}`, in the worker.
//
// # The model
//
//	ban, lift ──► store of the bans ──► History of an API ──► Asynq ──► Worker: look at the store, run the program
//	                    ▲                                                 │
//	                    └─────────────────────────────────────────────────┘
//
// A task says that something about a target has changed, and not what. The worker looks at how the ban stands at that moment, and makes the
// firewall agree. So it does not matter in which order tasks come, how late, or how often.
//
// # Why the last state wins
//
// A run is made under a permit of a semaphore of one, so there is one at a time in the whole installation, and nobody's program need be made
// for more. But a permit is a lease: a worker that stands still for longer may run its program late, when another has made the firewall
// agree with something newer. So after each run the worker looks again, and runs again if the ban has changed meanwhile. Whoever
// ran last has looked after it, and had the permit or was too late and has seen what is newer. A worker that dies before that has not
// answered for its task, and another one gets it.
//
// # What a firewall must not be told
//
// See Never: a slip must not lock out the machines that everything depends on. Those rules are looked at for each run, not when the ban
// is made. What is refused here stays banned in Tidegate itself, and so does what the breaker holds back.
//
// # When Redis or the program fails
//
// Without Redis nothing is run; Tidegate's own processes know the bans. A program that fails is run again, ever more rarely, for as long as the
// ban would have lasted. A store that has lost its memory gets the bans back from the gates, and the firewall has kept them.
package enforce
