package redisscript

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrReply is wrapped by the error about a reply that a script does not make.
var ErrReply = errors.New("redis: unexpected reply of a script")

// A Reply is what a script replied: a list of values, of which its methods return the next one. A reply that is no list is a list of one
// value. The first error is kept: that of Redis or of the connection, or an ErrReply for a value that is missing or of another type. The
// methods return zero values then. The zero Reply is an empty list.
type Reply struct {
	values []any
	err    error
}

// ReplyOf returns the reply to a command.
func ReplyOf(cmd *redis.Cmd) Reply {
	value, err := cmd.Result()
	if list, ok := value.([]any); ok || err != nil {
		return Reply{list, err}
	}
	return Reply{[]any{value}, nil}
}

// Err returns the first error.
func (r Reply) Err() error { return r.err }

// Unknown reports whether Redis did not have the script, so that it did not run.
func (r Reply) Unknown() bool { return r.err != nil && redis.HasErrorPrefix(r.err, "NOSCRIPT") }

// Len returns how many values are left.
func (r Reply) Len() int { return len(r.values) }

// Expect records an error unless n values are left, and returns the first error.
func (r *Reply) Expect(n int) error {
	if r.err == nil && len(r.values) != n {
		r.err = fmt.Errorf("%w: %d values instead of %d", ErrReply, len(r.values), n)
	}
	return r.err
}

// Next returns the next value as go-redis decoded it.
func (r *Reply) Next() any {
	if r.err == nil && len(r.values) == 0 {
		r.err = fmt.Errorf("%w: it is too short", ErrReply)
	}
	if r.err != nil {
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

// Int returns an integer, or one that is written as text, as a value of a key is.
func (r *Reply) Int() int64 {
	v := r.Next()
	switch v := v.(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.fail("number", v)
	return 0
}

// Micros returns a number of microseconds.
func (r *Reply) Micros() time.Duration { return time.Duration(r.Int()) * time.Microsecond }

// Time returns a time in microseconds since 1970.
func (r *Reply) Time() time.Time { return time.UnixMicro(r.Int()) }

// Text returns a string.
func (r *Reply) Text() string {
	v := r.Next()
	text, ok := v.(string)
	if !ok {
		r.fail("text", v)
	}
	return text
}

// List returns a list, whose errors are its own.
func (r *Reply) List() Reply {
	v := r.Next()
	list, ok := v.([]any)
	if !ok {
		r.fail("list", v)
	}
	return Reply{list, r.err}
}

// Values returns the next value as a reply of its own, as ReplyOf does. Its errors are its own.
func (r *Reply) Values() Reply {
	all := r.values
	if list, ok := r.Next().([]any); ok || r.err != nil {
		return Reply{list, r.err}
	}
	return Reply{all[:1], nil}
}

// Numeric reports whether the next value is an integer.
func (r *Reply) Numeric() bool {
	if len(r.values) == 0 {
		return false
	}
	_, ok := r.values[0].(int64)
	return ok
}

// Texts returns a list of strings.
func (r *Reply) Texts() []string {
	list := r.List()
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = list.Text()
	}
	r.err = list.err
	return texts
}

func (r *Reply) fail(want string, got any) {
	r.values = nil                                  // so that a loop over Len ends
	if err, ok := got.(error); ok && r.err == nil { // a list may hold errors of Redis
		r.err = err
	}
	if r.err == nil {
		r.err = fmt.Errorf("%w: %T %.40v instead of a %s", ErrReply, got, got, want)
	}
}
