package semregistry

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// A Table stores definitions. Make it with Postgres or SQLite; it is safe for concurrent use. The caller closes the database.
type Table struct{ db *sqldb.DB }

// Postgres returns the table in a database that package migrations has upgraded.
func Postgres(db *sql.DB) *Table {
	return &Table{sqldb.Postgres(db)}
}

// SQLite is Postgres for SQLite. Times have a resolution of a millisecond.
func SQLite(db *sql.DB) *Table {
	return &Table{sqldb.SQLite(db, nil)}
}

// An Entry is the database's record of one name.
type Entry struct {
	Name string
	File *Size     // definition of the rules file; nil: none
	Set  *Override // override by an operator; nil: none
}

// A Size is the limit and the lease of a semaphore.
type Size struct {
	Limit int
	Lease time.Duration
}

// An Override is a Size that takes precedence over that of the rules file.
type Override struct {
	Size

	By string
	At time.Time
}

// InForce returns the definition in force; ok is false if there is none.
func (e *Entry) InForce() (Size, bool) {
	switch {
	case e.Set != nil:
		return e.Set.Size, true
	case e.File != nil:
		return *e.File, true
	}
	return Size{}, false
}

const columns = `name, file_limit, file_lease_ms, set_limit, set_lease_ms, set_by, set_at`

// list returns all entries by name.
func (t *Table) list(ctx context.Context) ([]Entry, error) {
	var all []Entry
	err := t.db.Each(ctx, `SELECT `+columns+` FROM semaphores ORDER BY name`, func(row sqldb.Row) error {
		e, err := scan(row)
		all = append(all, e)
		return err
	})
	return all, err
}

// get returns the entry of a name; it is empty if the name was never declared.
func (t *Table) get(ctx context.Context, name string) (Entry, error) {
	e, err := entry(ctx, t.db.Conn, `SELECT `+columns+` FROM semaphores WHERE name = $1`, name)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{Name: name}, nil
	}
	return e, err
}

func entry(ctx context.Context, c sqldb.Conn, query, name string) (e Entry, err error) {
	found := false
	err = c.Each(ctx, query, func(row sqldb.Row) (err error) {
		found = true
		e, err = scan(row)
		return err
	}, name)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return e, err
}

// change calls alter with the entry while its row is locked, and stores the result unless alter returns an error. If there was no entry,
// fresh is true and the entry is new.
func (t *Table) change(ctx context.Context, name string, alter func(e *Entry, fresh bool) error) (Entry, error) {
	var e Entry
	err := t.db.InTx(ctx, func(tx sqldb.Conn) error {
		inserted, err := tx.Exec(ctx, `INSERT INTO semaphores (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`, name)
		if err != nil {
			return err
		}
		// UPDATE locks the row; SQLite has no SELECT … FOR UPDATE.
		if e, err = entry(ctx, tx, `UPDATE semaphores SET name = name WHERE name = $1 RETURNING `+columns, name); err != nil {
			return err
		}
		if err := alter(&e, inserted > 0); err != nil {
			return err
		}
		var fileLimit, fileLease, setLimit, setLease, setBy, setAt any
		if e.File != nil {
			fileLimit, fileLease = e.File.Limit, e.File.Lease.Milliseconds()
		}
		if e.Set != nil {
			setLimit, setLease, setBy, setAt = e.Set.Limit, e.Set.Lease.Milliseconds(), e.Set.By, e.Set.At
		}
		_, err = tx.Exec(ctx, `UPDATE semaphores
			SET file_limit = $2, file_lease_ms = $3, set_limit = $4, set_lease_ms = $5, set_by = $6, set_at = $7 WHERE name = $1`,
			name, fileLimit, fileLease, setLimit, setLease, setBy, setAt)
		return err
	})
	return e, err
}

func scan(row sqldb.Row) (e Entry, err error) {
	var (
		fileLimit, fileLease, setLimit, setLease sql.NullInt64
		setBy                                    sql.NullString
		setAt                                    sqldb.Time
	)
	if err := row.Scan(&e.Name, &fileLimit, &fileLease, &setLimit, &setLease, &setBy, &setAt); err != nil {
		return e, err
	}
	if fileLimit.Valid {
		e.File = &Size{int(fileLimit.Int64), time.Duration(fileLease.Int64) * time.Millisecond}
	}
	if setLimit.Valid {
		e.Set = &Override{Size{int(setLimit.Int64), time.Duration(setLease.Int64) * time.Millisecond}, setBy.String, time.Time(setAt)}
	}
	return e, nil
}
