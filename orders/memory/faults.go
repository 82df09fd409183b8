package memory

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Op is an operation of the store: the name of its method.
type Op string

// Faults are what goes wrong between a process and the database. The zero value is none.
type Faults struct {
	// Around is called for each operation instead of do, which does the operation in the database. It can
	//
	//   - return an error without calling do: the database did nothing;
	//   - call do and return an error: the reply was lost;
	//   - wait before or after do;
	//   - return an error and call do later: the process has given up, and the database has not.
	//
	// It must not return nil without having called do. Errors are wrapped as package postgres wraps them: an SQLState, for example, in
	// orders.ErrUnavailable. After SerializationFailure and DeadlockDetected a transaction is repeated up to three times, and Around called
	// each time. Lead calls it to take the lock.
	Around func(ctx context.Context, op Op, do func() error) error
	// Refuse reports whether a constraint of the database refuses an order, so that Commit returns orders.ErrPoison. It must not use the
	// store.
	Refuse func(*orders.Reservation) bool
	// Locked reports whether another transaction has locked an order, so that Pay, Cancel and Expire leave it out. It must not use the
	// store.
	Locked func(orders.ID) bool
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
)

// ErrConnectionLost is the cause of errors and of the end of contexts of leaders.
var ErrConnectionLost = errors.New("memory: the connection to the database is lost")

// Before returns an Around that calls fn first, which may wait, or return an error instead of the operation's result.
func Before(fn func(Op) error) func(context.Context, Op, func() error) error {
	return func(_ context.Context, op Op, do func() error) error {
		if err := fn(op); err != nil {
			return err
		}
		return do()
	}
}

// After returns an Around that calls fn after the operation if that succeeded. fn may wait, or return an error, which loses the reply.
func After(fn func(Op) error) func(context.Context, Op, func() error) error {
	return func(_ context.Context, op Op, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		return fn(op)
	}
}

// Standby is the Around of a process whose pooler has moved on to a standby.
func Standby(_ context.Context, op Op, do func() error) error {
	switch {
	case op == "Newest" || op == "Differing":
		return storage.ErrStandby
	case op.Writes():
		return ReadOnly
	}
	return do()
}

// repeated are the operations that write, and whether they are transactions of several statements, which package postgres repeats.
var repeated = map[Op]bool{
	"PutSale": true, "SetSwitch": true, "SetRoom": true, "EndHandOver": true, "Acknowledge": true, "Commit": true, "Prove": true,
	"DeleteDeadLetter": true, "Capture": true, "Cancel": true, "Expire": true, "Install": true,
	"RaiseEpoch": false, "Heartbeat": false, "Leave": false, "DeleteLate": false, "AddDeadLetter": false, "Pay": false, "Returned": false,
}

// Writes reports whether a standby refuses the operation.
func (op Op) Writes() bool {
	_, writes := repeated[op]
	return writes
}

// do calls fn within the faults.
func (s *Store) do(ctx context.Context, op Op, fn func() error) error {
	once := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.faults.Around == nil {
			return fn()
		}
		return s.faults.Around(ctx, op, fn)
	}
	if repeated[op] {
		return wrap(op, sqldb.Repeat(once))
	}
	return wrap(op, once())
}

// wrap classifies errors as package postgres does.
func wrap(op Op, err error) error {
	var state SQLState
	return storage.Error("memory: "+string(op), err, errors.As(err, &state) && storage.Refused(string(state)))
}
