package rules

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
)

// Match selects requests by their parts: "route", "method", "tier", "user", "ip", "device", "session", or the name of an attribute. All
// conditions must hold.
type Match map[string]Condition

// A Condition is a test of one part of a request. Make it with the functions of this package; the zero value is invalid.
type Condition struct {
	value any    // in the form of a rules file
	file  string // of ListFile
}

// In holds if the part is one of values. Routes are patterns: `*` is one segment, `**` any number of them.
func In(values ...string) Condition { return Condition{value: values} }

// ListFile holds if the part is a value in the file at path: one value, address or network in each line.
func ListFile(path string) Condition { return Condition{file: path} }

// CIDR holds if the part is an address of one of networks.
func CIDR(networks ...netip.Prefix) Condition { return keyed("cidr", networks) }

// Addresses holds if the part is an address from first to last.
func Addresses(first, last netip.Addr) Condition { return keyed("range", []netip.Addr{first, last}) }

// Between holds if the part is a number from low to high.
func Between(low, high float64) Condition {
	return keyed("range", []number64{number64(low), number64(high)})
}

// Above holds if the part is a number above n.
func Above(n float64) Condition { return keyed("above", number64(n)) }

// Below holds if the part is a number below n.
func Below(n float64) Condition { return keyed("below", number64(n)) }

// Whole holds if the part is a whole number.
func Whole() Condition { return keyed("whole", true) }

// Present holds if the request has the part.
func Present() Condition { return keyed("present", true) }

// Not holds if c does not.
func Not(c Condition) Condition { return keyed("not", c) }

// AnyOf holds if one of conditions does.
func AnyOf(conditions ...Condition) Condition { return keyed("any", conditions) }

// AllOf holds if all of conditions do.
func AllOf(conditions ...Condition) Condition { return keyed("all", conditions) }

func keyed(key string, value any) Condition { return Condition{value: map[string]any{key: value}} }

// A number64 is written without an exponent, which rules files do not have.
type number64 float64

// MarshalJSON implements json.Marshaler. It refuses numbers that a float64 does not hold exactly.
func (n number64) MarshalJSON() ([]byte, error) {
	if !(math.Abs(float64(n)) < 1<<53) {
		return nil, fmt.Errorf("a number of a condition must be between -2^53 and 2^53, got %g; larger ones are exact in a rules file", float64(n))
	}
	return strconv.AppendFloat(nil, float64(n), 'f', -1, 64), nil
}
