package sqldb

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Replan, before the arguments of a statement, has pgx send it unprepared, so that Postgres plans it each time.
const Replan = pgx.QueryExecModeCacheDescribe

// replanned has Postgres plan each statement when it runs.
type replanned struct{ Driver }

func (r replanned) Exec(ctx context.Context, text string, args []any) (int64, error) {
	return r.Driver.Exec(ctx, text, append([]any{Replan}, args...))
}

func (r replanned) Query(ctx context.Context, text string, args []any, scan func(Row) error) error {
	return r.Driver.Query(ctx, text, append([]any{Replan}, args...), scan)
}

// plain is a database or a transaction of database/sql.
type plain struct {
	handle interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
}

func (p plain) Exec(ctx context.Context, text string, args []any) (int64, error) {
	result, err := p.handle.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (p plain) Query(ctx context.Context, text string, args []any, scan func(Row) error) error {
	rows, err := p.handle.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// converting scans ids and lists, which are text in SQLite.
type converting struct{ plain }

func (c converting) Query(ctx context.Context, text string, args []any, scan func(Row) error) error {
	return c.plain.Query(ctx, text, args, func(row Row) error { return scan(converted{row}) })
}

type converted struct{ row Row }

func (c converted) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *[16]byte:
			dest[i] = uuid{d}
		case *[]int:
			dest[i] = list{d}
		}
	}
	return c.row.Scan(dest...)
}

// locking serializes statements that write.
type locking struct {
	converting
	writing sync.Locker
}

func (l locking) Exec(ctx context.Context, text string, args []any) (int64, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.converting.Exec(ctx, text, args)
}

type uuid struct{ to *[16]byte }

func (u uuid) Scan(v any) error {
	text, ok := v.(string)
	if raw := strings.ReplaceAll(text, "-", ""); !ok || len(raw) != 32 {
		return fmt.Errorf("sqldb: an id is %q", v)
	} else if _, err := hex.Decode(u.to[:], []byte(raw)); err != nil {
		return fmt.Errorf("sqldb: an id is %q: %w", v, err)
	}
	return nil
}

type list struct{ to *[]int }

func (l list) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("sqldb: a list is %T", v)
	}
	*l.to = nil
	return json.Unmarshal([]byte(text), l.to)
}

// A Time is read from a column of times, in UTC. NULL is the zero time.
type Time time.Time

// Scan implements sql.Scanner.
func (t *Time) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*t = Time{}
	case time.Time:
		*t = Time(v.UTC())
	case int64:
		*t = Time(time.UnixMilli(v).UTC())
	default:
		return fmt.Errorf("sqldb: a time is %T, should be a timestamp or milliseconds", v)
	}
	return nil
}
