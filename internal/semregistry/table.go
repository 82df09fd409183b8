package semregistry

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/sqltime"
	"github.com/tidegate/tidegate/internal/transaction"
)

// A Table stores definitions. Make it with Postgres or SQLite; it is safe for concurrent use. The caller closes the database.
type Table struct {
	db    *sql.DB
	write sqltime.Write
}

// Postgres returns the table in a database that package migrations has upgraded.
func Postgres(db *sql.DB) *Table {
	return &Table{db, sqltime.Postgres}
}

// SQLite is Postgres for SQLite. Times have a resolution of a millisecond.
func SQLite(db *sql.DB) *Table {
	return &Table{db, sqltime.SQLite}
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
	rows, err := t.db.QueryContext(ctx, `SELECT `+columns+` FROM semaphores ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Entry
	for rows.Next() {
		e, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// get returns the entry of a name; it is empty if the name was never declared.
func (t *Table) get(ctx context.Context, name string) (Entry, error) {
	e, err := scan(t.db.QueryRowContext(ctx, `SELECT `+columns+` FROM semaphores WHERE name = $1`, name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{Name: name}, nil
	}
	return e, err
}

// change calls alter with the entry while its row is locked, and stores the result unless alter returns an error. If there was no entry,
// fresh is true and the entry is new.
func (t *Table) change(ctx context.Context, name string, alter func(e *Entry, fresh bool) error) (Entry, error) {
	var e Entry
	err := transaction.SQL(ctx, t.db, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO semaphores (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`, name)
		if err != nil {
			return err
		}
		inserted, err := result.RowsAffected()
		if err != nil {
			return err
		}
		// UPDATE locks the row; SQLite has no SELECT … FOR UPDATE.
		e, err = scan(tx.QueryRowContext(ctx, `UPDATE semaphores SET name = name WHERE name = $1 RETURNING `+columns, name).Scan)
		if err != nil {
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
			setLimit, setLease, setBy, setAt = e.Set.Limit, e.Set.Lease.Milliseconds(), e.Set.By, t.write(e.Set.At)
		}
		_, err = tx.ExecContext(ctx, `UPDATE semaphores
			SET file_limit = $2, file_lease_ms = $3, set_limit = $4, set_lease_ms = $5, set_by = $6, set_at = $7 WHERE name = $1`,
			name, fileLimit, fileLease, setLimit, setLease, setBy, setAt)
		return err
	})
	return e, err
}

func scan(row func(...any) error) (e Entry, err error) {
	var (
		fileLimit, fileLease, setLimit, setLease sql.NullInt64
		setBy                                    sql.NullString
		setAt                                    sqltime.Time
	)
	if err := row(&e.Name, &fileLimit, &fileLease, &setLimit, &setLease, &setBy, &setAt); err != nil {
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
