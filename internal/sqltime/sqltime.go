// Package sqltime converts times for both databases: Postgres stores timestamps, SQLite milliseconds since 1970.
package sqltime

import (
	"fmt"
	"time"
)

// A Write returns what a column takes for a time.
type Write func(time.Time) any

// Postgres is the Write of Postgres.
func Postgres(t time.Time) any { return t }

// SQLite is the Write of SQLite. It keeps times to the millisecond.
func SQLite(t time.Time) any { return t.UnixMilli() }

// A Time is read from a column of either database. NULL is the zero time.
type Time time.Time

// Scan implements sql.Scanner.
func (s *Time) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s = Time{}
	case time.Time:
		*s = Time(v)
	case int64:
		*s = Time(time.UnixMilli(v))
	default:
		return fmt.Errorf("sqltime: a time is %T, should be a timestamp or milliseconds", v)
	}
	return nil
}
