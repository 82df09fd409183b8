// Package chaos injects faults into an installation while a crowd buys, and checks that nothing was lost or oversold.
//
// A round starts two APIs and two workers as processes with their own Redis and Postgres, sends the crowd of package rehearse
// to them, and injects faults from a plan that is derived from a seed. Then it heals all faults, lets everything drain, and
// checks the invariants in three ways: by what the crowd saw, by what the API reports, and by its own queries to both
// databases.
//
// The parts:
//
//   - node: one process of the product, restarted whenever it ends, with its log and its clock
//   - proxy: between the product and a server, it cuts connections and drops replies
//   - cluster: all processes and servers of a round
//   - fault: one way to break a cluster, of which there may be kinds; new faults go into the table in faults_test.go
//   - plan: which faults, when, with which parameters; the same for the same seed
//   - steps: where the leader of a recovery can be stopped
//   - leaders: which leader led which epoch, as both databases show it
//   - purchase: what the harness itself buys
//   - openings: when the sale was closed, and which fault was in effect then
//   - look: the databases, read without the product's code, and whole: every key of every item
//   - round and summary: the results
//
// A plan never destroys both copies of an order before its commit: the one in Redis and the one in the memory of the API that
// accepted it. Before a fault that destroys one, the round waits until the other copies are safe (safety_test.go). Rounds with that
// double fault are a separate kind, whose losses are counted and are no failure.
package chaos
