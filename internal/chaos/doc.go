// Package chaos breaks an installation on purpose while a crowd buys, and judges whether anything was lost or oversold.
//
// A round starts two APIs and two workers as processes over a Redis and a Postgres of its own, sends the crowd of package rehearse at
// them, and injects faults from a plan that follows from a number, the seed. Then it heals what is broken, lets everything drain, and
// judges the invariants three times over: from what the crowd saw, from what the API says, and from its own look at both databases.
//
// The parts:
//
//   - node: one process of the product, started again whenever it ends
//   - proxy: between the product and a server, it cuts connections and drops replies
//   - cluster: all processes and servers of a round
//   - fault: one way to break a cluster; the table in faults.go is where the next one goes
//   - plan: which faults, when, with which parameters; the same for the same seed
//   - steps: where the leader of a recovery can be stopped
//   - leaders: who led which epoch, as both databases show it
//   - purchase: what the harness buys itself, of an item that it adds to the sale
//   - look: the databases, read without the product's code
//   - round and summary: what came of it
//
// A plan never takes both copies of an order before its commit: the one in Redis and the one in the memory of the API that accepted
// it. Before a fault that takes one, the round waits until what depends on it is safe (safety.go). Rounds with that double fault are a
// kind of their own, whose losses are counted and no failure.
package chaos
