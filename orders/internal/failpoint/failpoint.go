// Package failpoint lets tests kill a process at a named place of the code.
//
// In a normal build Hit is an empty function that the compiler inlines into
// nothing. With the build tag failpoints, FAILPOINT=name:N in the environment
// makes the process kill itself, as kill -9 would, when it comes to the place
// for the N-th time.
package failpoint

// The places.
const (
	AfterReserve      = "after_reserve"      // Redis has reserved; this process has not remembered it, and nobody was told
	BeforeAnswer      = "before_answer"      // remembered and on its way to the queue; the buyer was not told
	BetweenStatements = "between_statements" // the rows are inserted and not committed
	AfterCommit       = "after_commit"       // the database has the orders; they are in the outbox still
	BeforeAck         = "before_ack"         // everything is done; the queue has not heard
)
