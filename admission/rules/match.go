package rules

import (
	"math"
	"net/netip"
	"slices"

	"github.com/tidegate/tidegate/internal/rulesfile"
)

// Match selects requests by their parts: "route", "method", "tier", "user", "ip", "device", "session", or the name of an attribute. All
// conditions must hold.
type Match map[string]Condition

// A Condition is a test of one part of a request. Make it with the functions of this package; the zero value is invalid.
type Condition struct {
	node func(b *builder) *rulesfile.Node
}

// In holds if the part is one of values. Routes are patterns: `*` is one segment, `**` any number of them.
func In(values ...string) Condition {
	values = slices.Clone(values)
	return Condition{func(b *builder) *rulesfile.Node { return b.Texts(values...) }}
}

// ListFile holds if the part is a value in the file at path: one value, address or network in each line.
func ListFile(path string) Condition {
	return keyed("list", func(b *builder) *rulesfile.Node { return b.Text(b.listFile(path)) })
}

// CIDR holds if the part is an address of one of networks.
func CIDR(networks ...netip.Prefix) Condition {
	var values []string
	for _, n := range networks {
		values = append(values, n.String())
	}
	return keyed("cidr", In(values...).node)
}

// Addresses holds if the part is an address from first to last.
func Addresses(first, last netip.Addr) Condition {
	return keyed("range", In(first.String(), last.String()).node)
}

// Between holds if the part is a number from low to high.
func Between(low, high float64) Condition {
	return keyed("range", func(b *builder) *rulesfile.Node { return b.List(b.number(low), b.number(high)) })
}

// Above holds if the part is a number above n.
func Above(n float64) Condition {
	return keyed("above", func(b *builder) *rulesfile.Node { return b.number(n) })
}

// Below holds if the part is a number below n.
func Below(n float64) Condition {
	return keyed("below", func(b *builder) *rulesfile.Node { return b.number(n) })
}

// Whole holds if the part is a whole number.
func Whole() Condition {
	return keyed("whole", func(b *builder) *rulesfile.Node { return b.Bool(true) })
}

// Present holds if the request has the part.
func Present() Condition {
	return keyed("present", func(b *builder) *rulesfile.Node { return b.Bool(true) })
}

// Not holds if c does not.
func Not(c Condition) Condition {
	return keyed("not", func(b *builder) *rulesfile.Node { return b.condition(c) })
}

// AnyOf holds if one of conditions does.
func AnyOf(conditions ...Condition) Condition { return several("any", conditions) }

// AllOf holds if all of conditions do.
func AllOf(conditions ...Condition) Condition { return several("all", conditions) }

func keyed(key string, value func(b *builder) *rulesfile.Node) Condition {
	return Condition{func(b *builder) *rulesfile.Node { return b.Mapping(b.Pair(key, value(b))) }}
}

func several(key string, conditions []Condition) Condition {
	conditions = slices.Clone(conditions)
	return keyed(key, func(b *builder) *rulesfile.Node {
		items := make([]*rulesfile.Node, len(conditions))
		for i, c := range conditions {
			items[i] = b.condition(c)
		}
		return b.List(items...)
	})
}

// condition returns the tree of c; of the zero value it is nothing, which no part accepts.
func (b *builder) condition(c Condition) *rulesfile.Node {
	if c.node == nil {
		return b.Nothing()
	}
	return c.node(b)
}

// number returns a number of a condition. It refuses those that a float64 does not hold exactly.
func (b *builder) number(n float64) *rulesfile.Node {
	if !(math.Abs(n) < 1<<53) {
		b.wrong("a number of a condition must be between -2^53 and 2^53, got %g; larger ones are exact in a rules file", n)
	}
	return b.Float(n)
}
