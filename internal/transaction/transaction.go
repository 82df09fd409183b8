// Package transaction runs transactions, and repeats those that the database ended in favour of others.
package transaction

import (
	"context"
	"database/sql"
	"errors"
)

// repeats is how often a transaction is repeated. The repeat of one that met others finds them committed, so more would not help.
const repeats = 3

// Repeat calls run, which runs one transaction, and up to three times more while Postgres ends that to resolve a deadlock (SQLSTATE 40P01) or
// because it cannot be serialized with others (40001). Each call of run starts from the beginning, so it must replace what an earlier one left
// in its variables. The error is that of the last call.
func Repeat(run func() error) error {
	err := run()
	for range repeats {
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "40001" && state.SQLState() != "40P01" {
			break
		}
		err = run()
	}
	return err
}

// SQL runs fn in a transaction of Postgres or SQLite, as Repeat does. The transaction is rolled back if fn returns an error.
func SQL(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	return Repeat(func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after a commit
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}
