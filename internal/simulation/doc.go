// Package simulation runs an installation in one process: several APIs and workers as shop.Open makes them, Redis, a database and a
// queue in memory, links that delay and cut, and buyers who repeat, pay, cancel and give up. A number decides what happens: how many
// processes and buyers there are, which faults come, and when. Program simulate runs it in WebAssembly, where time is virtual and a number
// gives the same world each time; elsewhere it takes real time.
//
// A world is judged by the same invariants as an installation, by shop.Service.Verify, by waitingroom.Service.Verify, and by what its
// buyers, visitors and callers were given.
package simulation
