package admission

import (
	"unicode/utf8"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
)

// A Request is what a caller wants to do, as far as rules look at it.
type Request = rules.Request

// withDefaults fills in the tier and the cost of r.
func withDefaults(r Request) Request {
	if r.Tier == "" {
		r.Tier = rules.TierAnonymous
		if r.User != "" {
			r.Tier = rules.TierRegistered
		}
	}
	if r.Cost == 0 {
		r.Cost = 1
	}
	return r
}

const maxName = 255 // characters

func validate(r *Request) error {
	if r.Cost < 0 || r.Cost > rules.MaxCost {
		return failure.New(ErrInvalidRequest, "cost is %d, should be 1 to %d", r.Cost, rules.MaxCost)
	}
	for _, name := range [...]struct{ field, value string }{{"User", r.User}, {"Device", r.Device}, {"Session", r.Session}} {
		if err := input.Printable(name.value, maxName); err != nil { // such a name could not be banned
			return failure.At(ErrInvalidRequest, name.field, "%v", err)
		}
	}
	if n := utf8.RuneCountInString(r.ID); n > 255 {
		return failure.New(ErrInvalidRequest, "ID has %d characters, should have at most 255", n)
	}
	return nil
}
