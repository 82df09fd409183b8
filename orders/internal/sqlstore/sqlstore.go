// Package sqlstore is what the stores of orders in Postgres and in SQLite have in common: most statements. Those that commit, pay and end
// orders are one for a batch in Postgres and one for an order in SQLite; the installation and the process list differ as well.
package sqlstore

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/migrations"
)

// Words are those of a database's statements, beside sqldb's.
type Words struct {
	NextRevision string // of a sale, in a statement that changes one
	NoUnits      string // of an order
	Payload      string // of a dead letter, as JSON
	UTC          string // the column pay_before as text
	Standby      string // whether the server may be behind
}

// Pairs returns them as package sqldb takes them.
func (w *Words) Pairs() []string {
	return []string{
		"{next revision}", w.NextRevision, "{no units}", w.NoUnits, "{payload}", w.Payload, "{pay_before UTC}", w.UTC,
		"{standby}", w.Standby,
	}
}

// Store implements a part of storage.Store. Its methods are all of that: others are functions, because stores embed it.
type Store struct {
	db   *sqldb.DB
	wrap func(op string, err error) error
}

// New returns a store. wrap classifies an error of the driver.
func New(db *sqldb.DB, wrap func(op string, err error) error) Store { return Store{db, wrap} }

// inTx runs fn in one transaction, which may be repeated.
func (s *Store) inTx(ctx context.Context, op string, fn func(sqldb.Conn) error) error {
	return s.wrap(op, s.db.InTx(ctx, fn))
}

// SchemaError returns the error of a check of the schema.
func SchemaError(s *Store, err error) error {
	var incomplete *migrations.IncompleteError
	if errors.Is(err, migrations.ErrOutdated) || errors.As(err, &incomplete) {
		return err
	}
	return s.wrap("check the schema", err)
}

// all returns what scan reads from each row.
func all[T any](ctx context.Context, c sqldb.Conn, statement string, scan func(sqldb.Row) (T, error), args ...any) (list []T, err error) {
	err = c.Each(ctx, statement, func(row sqldb.Row) error {
		one, err := scan(row)
		list = append(list, one)
		return err
	}, args...)
	return list, err
}
