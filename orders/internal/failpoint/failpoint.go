// Package failpoint lets tests kill or stop a process at a named place in the code.
//
// In a normal build Hit and Step are empty functions that the compiler removes. With the build tag failpoints, FAILPOINT=name:N
// in the environment makes the process kill itself, as kill -9 would, when it reaches the place for the N-th time.
//
// The steps of a recovery are armed while the process runs. FAILPOINT_DIR names a folder. A file in it with the name of a step
// defines what the next process to reach that step does: "freeze" stops the goroutine until the process gets SIGCONT, "stall 3s"
// stops it for that time. The process claims the file by renaming it to STEP.PID, so one process stops, once. Whoever armed "freeze"
// then stops the whole process with SIGSTOP: if it stopped itself, a SIGCONT that came before would leave it stopped for ever.
package failpoint

// The places at which Hit kills the process.
const (
	AfterReserve      = "after_reserve"      // Redis has reserved; this process has not remembered it, and sent no response
	BeforeAnswer      = "before_answer"      // remembered and on its way to the queue; the buyer has no response
	BetweenStatements = "between_statements" // the rows are inserted and not committed
	AfterCommit       = "after_commit"       // the database has the orders; they are still in the outbox
	BeforeAck         = "before_ack"         // everything is done; the task is not acknowledged
)

// The steps of a recovery, see Step.
const (
	LeaderRaises       = "leader_raises"         // about to raise the epoch
	LeaderRaised       = "leader_raised"         // the epoch is raised; nothing is written to Redis yet
	LeaderSeals        = "leader_seals"          // has the items; those of earlier epochs are not sealed
	LeaderWaits        = "leader_waits"          // about to wait for the other processes
	LeaderEndsHandOver = "leader_ends_hand_over" // all processes have handed over; earlier epochs are still committed
	LeaderLoads        = "leader_loads"          // the hand-over has ended; nothing is loaded
	LeaderReservesLate = "leader_reserves_late"  // loaded; late orders are not reserved again
	LeaderOpens        = "leader_opens"          // about to open
	LeaderOpened       = "leader_opened"         // open; the keys of earlier epochs are still there
)
