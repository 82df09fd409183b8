// Package sqldb runs statements that are written once for Postgres and SQLite. $1 is an argument, and the words in braces are what the two
// databases spell in different ways:
//
//	{now}, {now ms}   the database's time: of a column of times (in Postgres, when the transaction began), and the current one in Unix ms
//	{ms $1}           a duration, to be added to a time
//	{in $1}           whether what stands before it is in a list
//	{rows $1: seq bigint, lane text}   the table j of a JSON array's objects
//	{text id}         the text of an id
//	{lock}, {share}, {unlocked}        FOR UPDATE, FOR SHARE and FOR UPDATE SKIP LOCKED, of which SQLite with its one writer needs none
//
// A store may add words of its own. Columns of times are timestamps in Postgres and Unix ms in SQLite, ids of 16 bytes are uuid
// and text, lists of numbers are arrays and JSON; arguments and destinations of Scan are the same for both.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// A Row is read with Scan, which takes also a [16]byte for an id, an []int for a list of numbers, and a Time.
type Row interface{ Scan(dest ...any) error }

// A Driver sends translated statements to a database, or in a transaction.
type Driver interface {
	Exec(ctx context.Context, text string, args []any) (changed int64, err error)
	// Query calls scan for each row, until it returns an error.
	Query(ctx context.Context, text string, args []any, scan func(Row) error) error
}

// A Conn runs statements, each in its own transaction or all in one. Make it with a DB.
type Conn struct {
	dialect *dialect
	driver  Driver
}

// Replanned returns the connection with statements that Postgres plans each time, for the sizes that its tables have then. It is for
// looking up a few of many rows: otherwise a session keeps the plan from when a table was small, and reads all of it, until Postgres
// gathers statistics.
func (c Conn) Replanned() Conn {
	if !c.dialect.sqlite {
		c.driver = replanned{c.driver}
	}
	return c
}

// Exec returns how many rows the statement changed.
func (c Conn) Exec(ctx context.Context, statement string, args ...any) (changed int64, err error) {
	return c.driver.Exec(ctx, c.dialect.text(statement), c.dialect.args(args))
}

// Each calls scan for every row, until it returns an error.
func (c Conn) Each(ctx context.Context, statement string, scan func(Row) error, args ...any) error {
	return c.driver.Query(ctx, c.dialect.text(statement), c.dialect.args(args), scan)
}

// One reads the first row into dest. It returns sql.ErrNoRows if there is none.
func (c Conn) One(ctx context.Context, statement string, dest []any, args ...any) error {
	found := false
	err := c.Each(ctx, statement, func(row Row) error {
		if found {
			return nil
		}
		found = true
		return row.Scan(dest...)
	}, args...)
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// A DB is a database of either kind, outside of a transaction. It is safe for concurrent use, and the database stays its caller's.
type DB struct {
	Conn
	begin func(ctx context.Context, fn func(Driver) error) error
}

// New returns a Postgres behind another driver than that of database/sql. begin runs fn in one transaction. Words are pairs of a
// word and its text.
func New(driver Driver, begin func(ctx context.Context, fn func(Driver) error) error, words ...string) *DB {
	return &DB{Conn{postgres.with(words), driver}, begin}
}

// Postgres returns a Postgres behind pgx's driver for database/sql, which scans no ids and no lists. Words are pairs of a word
// and its text.
func Postgres(db *sql.DB, words ...string) *DB {
	return &DB{Conn{postgres.with(words), plain{db}}, func(ctx context.Context, fn func(Driver) error) error {
		return inTx(ctx, db, func(tx *sql.Tx) error { return fn(plain{tx}) })
	}}
}

// SQLite returns a SQLite database of this process, whose transactions lock it at their start. writing serializes its writers, which would
// otherwise poll for the lock; nil: they poll. A statement that writes and returns rows must run in InTx. Words are pairs of a
// word and its text.
func SQLite(db *sql.DB, writing sync.Locker, words ...string) *DB {
	if writing == nil {
		writing = nowhere{}
	}
	return &DB{Conn{sqlite.with(words), locking{converting{plain{db}}, writing}}, func(ctx context.Context, fn func(Driver) error) error {
		writing.Lock()
		defer writing.Unlock()
		return inTx(ctx, db, func(tx *sql.Tx) error { return fn(converting{plain{tx}}) })
	}}
}

type nowhere struct{}

func (nowhere) Lock()   {}
func (nowhere) Unlock() {}

// With returns the same database with further words, or with other texts for some: for tests.
func (db *DB) With(words ...string) *DB {
	return &DB{Conn{db.dialect.with(words), db.driver}, db.begin}
}

// InTx runs fn in one transaction, as Repeat does. It is rolled back if fn returns an error.
func (db *DB) InTx(ctx context.Context, fn func(Conn) error) error {
	return Repeat(func() error {
		return db.begin(ctx, func(d Driver) error { return fn(Conn{db.dialect, d}) })
	})
}

func inTx(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// SQLState is an error of a server, as its SQLSTATE of five characters, for stores that have no driver.
type SQLState string

func (s SQLState) Error() string { return "SQLSTATE " + string(s) }

// SQLState returns the five characters.
func (s SQLState) SQLState() string { return string(s) }

// repeats is how often a transaction is repeated. The repeat of one that met others finds them committed, so more would not help.
const repeats = 3

// Repeat calls run, which runs one transaction, and up to three times more while Postgres ends that to resolve a deadlock
// (SQLSTATE 40P01) or because it cannot be serialized with others (40001). Each call of run starts from the beginning, so it must
// replace what an earlier one left in its variables. The error is that of the last call.
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
