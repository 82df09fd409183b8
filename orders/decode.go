package orders

import (
	"fmt"
	"strconv"
)

// decoder reads a script's reply item by item, and keeps the first error.
type decoder struct {
	reply []any
	err   error
}

func (d *decoder) next() any {
	if d.err != nil {
		return nil
	}
	if len(d.reply) == 0 {
		d.err = fmt.Errorf("%w: a script's reply is too short", ErrUnavailable)
		return nil
	}
	v := d.reply[0]
	d.reply = d.reply[1:]
	return v
}

func (d *decoder) int64() int64 {
	switch v := d.next().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			d.fail("number", v)
		}
		return n
	default:
		d.fail("number", v)
	}
	return 0
}

func (d *decoder) string() string {
	v := d.next()
	s, ok := v.(string)
	if !ok {
		d.fail("word", v)
	}
	return s
}

func (d *decoder) strings() []string {
	v := d.next()
	list, ok := v.([]any)
	if !ok {
		d.fail("list", v)
		return nil
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], ok = item.(string); !ok {
			d.fail("word", item)
		}
	}
	return texts
}

func (d *decoder) fail(want string, got any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: a script replied %T %.40v where a %s belongs", ErrUnavailable, got, got, want)
	}
}
