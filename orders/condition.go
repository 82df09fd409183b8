package orders

// A Condition is a reason why this process cannot take or commit orders, or why accepted orders are in danger.
type Condition struct {
	Cause  Cause
	Detail string // one sentence for callers of readyz: it may name sales, and never hosts, users or keys
	Serves bool   // orders are taken and committed nevertheless
	Err    error  // of the server, for the log; may be nil
}

// Cause is what a Condition comes from. docs/operations.md has a table of all causes, with what to do.
type Cause string

// The causes.
const (
	CauseRedis    Cause = "redis"     // Redis does not answer
	CauseDatabase Cause = "database"  // the database does not answer
	CauseLoading  Cause = "loading"   // the sales are not read yet
	CauseLease    Cause = "lease"     // no heartbeat has reached the database lately
	CauseCommits  Cause = "commits"   // no worker commits orders
	CauseRegress  Cause = "regressed" // the database went back in time
	CauseSales    Cause = "sales"     // sales cannot be read in Redis, or are being rebuilt
	CauseEviction Cause = "eviction"  // Redis drops keys when its memory is full
	CauseClocks   Cause = "clocks"    // the clocks of this process, Redis and the database differ
	CauseSchema   Cause = "schema"    // the database lacks constraints or indexes
	CauseForeign  Cause = "foreign"   // the database and Redis do not belong together
	CauseQueue    Cause = "queue"     // the task queue cannot be used; the sweeper commits orders
)

// Causes are all causes.
var Causes = []Cause{
	CauseRedis, CauseDatabase, CauseLoading, CauseLease, CauseCommits, CauseRegress, CauseSales, CauseEviction,
	CauseClocks, CauseSchema, CauseForeign, CauseQueue,
}

// Error returns the cause, and the server's error or the detail.
func (c *Condition) Error() string {
	if c.Err != nil {
		return string(c.Cause) + ": " + c.Err.Error()
	}
	return string(c.Cause) + ": " + c.Detail
}

// Unwrap returns ErrUnavailable, and the server's error if there is one.
func (c *Condition) Unwrap() []error {
	if c.Err != nil {
		return []error{ErrUnavailable, c.Err}
	}
	return []error{ErrUnavailable}
}
