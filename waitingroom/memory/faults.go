package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Op is an operation of the store: Begin and Commit of a transaction, or what is done in one or outside, such as Rooms, Lock or Add.
type Op string

// Faults are what goes wrong between a process and the database. The zero value is none.
type Faults struct {
	// Around is called for each operation instead of do, which does the operation in the database. It can
	//
	//   - return an error without calling do: the database did nothing;
	//   - call do and return an error: the reply was lost. Only of Commit does it matter, because an error of another operation ends its
	//     transaction;
	//   - wait before or after do, while the transaction keeps its locks;
	//   - of Commit, return ErrLater and call do later: the process has given up, and the database has not. Until then the transaction
	//     keeps its locks.
	//
	// It must not return nil without having called do. Errors are wrapped in waitingroom.ErrUnavailable. After SerializationFailure and
	// DeadlockDetected a transaction is repeated up to three times, and Around called each time.
	Around func(ctx context.Context, op Op, do func() error) error
}

// SQLState is an error of a server, as its SQLSTATE.
type SQLState = sqldb.SQLState

// Errors of Postgres.
const (
	SerializationFailure SQLState = "40001"
	DeadlockDetected     SQLState = "40P01"
	ReadOnly             SQLState = "25006" // the server has become a standby
	AdminShutdown        SQLState = "57P01"
	CheckViolation       SQLState = "23514"
	UniqueViolation      SQLState = "23505"
)

var (
	// ErrConnectionLost is the cause of errors of transactions that Disconnect or Restart ended.
	ErrConnectionLost = errors.New("memory: the connection to the database is lost")
	// ErrLater is what Around returns of a Commit that it does later.
	ErrLater = errors.New("memory: no answer to the commit yet")
)

// reads are the operations that change and lock nothing.
var reads = map[Op]bool{
	"Begin": true, "Commit": true, "Now": true, "Versions": true, "Rooms": true, "Cursors": true, "Closed": true, "Old": true, "BySubject": true,
	"ByNumber": true, "ByLaneNumber": true, "After": true, "Listed": true, "Gone": true, "Expired": true, "CountPasses": true,
	"CountAdmitted": true, "TakeCensus": true, "Acts": true, "ActOf": true, "Live": true, "NextLive": true, "Unfinished": true,
	"Passes": true, "Count": true,
}

// Writes reports whether a standby refuses the operation.
func (op Op) Writes() bool { return !reads[op] }

// do calls fn within the faults.
func (s *Store) do(ctx context.Context, op Op, fn func() error) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case s.faults.Around == nil:
		err = fn()
	default:
		err = s.faults.Around(ctx, op, fn)
	}
	if err != nil {
		err = store.Unavailable(fmt.Errorf("memory: %s: %w", op, err))
	}
	return err
}

// run does one operation: fn under the lock, within the faults.
func run[T any](ctx context.Context, c reader, op Op, fn func() (T, error)) (T, error) {
	var result, none T
	err := c.of.do(ctx, op, func() (err error) {
		c.of.db.mu.Lock()
		defer c.of.db.mu.Unlock()
		if c.tx != nil {
			if err := c.tx.usable(); err != nil {
				return err
			}
		}
		result, err = fn()
		return err
	})
	if err == nil {
		return result, nil
	}
	if c.tx != nil {
		c.of.db.mu.Lock()
		defer c.of.db.mu.Unlock()
		c.tx.aborted = true
	}
	return none, err
}
