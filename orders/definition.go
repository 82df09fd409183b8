package orders

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

// Bounds and defaults of a sale's definition.
const (
	MaxStock        = 10_000_000
	MaxQuota        = 1_000
	MaxInFlight     = 1_000_000
	MaxItems        = 10_000
	MaxHold         = 365 * 24 * time.Hour
	maxSaleLength   = 10 * 366 * 24 * time.Hour
	DefaultHold     = 15 * time.Minute
	DefaultQuota    = 1
	DefaultInFlight = 10_000

	// NoHold is the Hold of a sale whose confirmed orders are final.
	NoHold time.Duration = -1
)

// Definition is what an operator decides about a sale. Zero values are the defaults, which are those of the HTTP API too.
type Definition struct {
	ID        string // name of the sale, see ValidName
	StartsAt  time.Time
	EndsAt    time.Time
	Anonymous bool          // take orders without a user too
	Hold      time.Duration // time to pay after the commit, from 1 ms; zero: DefaultHold; NoHold: a confirmed order is final
	Items     []ItemDefinition
	Revision  int64 // change the sale only if it is still of this revision; zero: whatever it is
	Force     bool  // change the sale even if that interrupts it while it is open, or changes Anonymous while there are orders
}

// ItemDefinition defines an item of a sale.
type ItemDefinition struct {
	ID            string // name of the item, see ValidName
	Stock         int    // units on sale; only grows
	QuotaPerBuyer int    // units of live and paid orders a buyer may hold; zero: DefaultQuota
	InFlightMax   int    // orders accepted and not yet committed; zero: DefaultInFlight
	Final         bool   // the stock grows no more; it stays final
}

// Definition returns the definition of the sale, to be changed and put again. PutSale then refuses it if somebody else has changed the sale
// meanwhile.
func (s *Sale) Definition() Definition {
	d := Definition{
		ID: s.ID, StartsAt: s.StartsAt, EndsAt: s.EndsAt, Anonymous: !s.RequiresUser, Hold: s.Hold, Revision: s.Revision,
		Items: make([]ItemDefinition, len(s.Items)),
	}
	if s.Hold == 0 {
		d.Hold = NoHold
	}
	for i, it := range s.Items {
		d.Items[i] = ItemDefinition{ID: it.ID, Stock: it.Stock, QuotaPerBuyer: it.QuotaPerBuyer, InFlightMax: it.InFlightMax, Final: it.Final}
	}
	return d
}

// Sale returns the sale that d defines, with the defaults, as a store gets it. It returns ErrInvalid if the definition is invalid.
func (d *Definition) Sale() (Sale, error) {
	if err := d.validate(); err != nil {
		return Sale{}, err
	}
	s := Sale{
		ID: d.ID, StartsAt: d.StartsAt.UTC().Truncate(time.Millisecond), EndsAt: d.EndsAt.UTC().Truncate(time.Millisecond), RequiresUser: !d.Anonymous,
		Hold: max(0, cmp.Or(d.Hold, DefaultHold)), Revision: d.Revision, Items: make([]Item, len(d.Items)),
	}
	for i, it := range d.Items {
		s.Items[i] = Item{
			ID: it.ID, Stock: it.Stock, QuotaPerBuyer: cmp.Or(it.QuotaPerBuyer, DefaultQuota), InFlightMax: cmp.Or(it.InFlightMax, DefaultInFlight),
			Final: it.Final,
		}
	}
	return s, nil
}

func (d *Definition) validate() error {
	invalid := func(field, format string, args ...any) error {
		return failure.At(ErrInvalid, field, format, args...)
	}
	switch {
	case !ValidName(d.ID):
		return invalid("ID", nameShape)
	case !d.EndsAt.After(d.StartsAt):
		return invalid("EndsAt", "must be after the start")
	case d.EndsAt.Sub(d.StartsAt) > maxSaleLength:
		return invalid("EndsAt", "must be within ten years of the start")
	case d.StartsAt.Year() < 2000 || d.EndsAt.Year() > 2200:
		return invalid("StartsAt", "must lie between the years 2000 and 2200")
	case d.Hold != 0 && d.Hold != NoHold && (d.Hold < time.Millisecond || d.Hold > MaxHold):
		return invalid("Hold", "is %v, and must be from %v to %v", d.Hold, time.Millisecond, MaxHold)
	case len(d.Items) == 0 || len(d.Items) > MaxItems:
		return invalid("Items", "must name 1 to %d items, and names %d", MaxItems, len(d.Items))
	}
	seen := make(map[string]bool, len(d.Items))
	for i, it := range d.Items {
		at := fmt.Sprintf("Items[%d].", i)
		if err := it.Validate(at); err != nil {
			return err
		}
		if seen[it.ID] {
			return invalid(at+"ID", "%q is named twice", it.ID)
		}
		seen[it.ID] = true
	}
	return nil
}

const nameShape = "must be 1 to 64 letters, digits, dots, underscores or hyphens, starting with a letter or digit"

// Validate returns ErrInvalid for a field, whose name it puts after at.
func (it *ItemDefinition) Validate(at string) error {
	if !ValidName(it.ID) {
		return failure.At(ErrInvalid, at+"ID", nameShape)
	}
	for _, bound := range []struct {
		field        string
		n, low, high int
	}{
		{"Stock", it.Stock, 0, MaxStock},
		{"QuotaPerBuyer", cmp.Or(it.QuotaPerBuyer, DefaultQuota), 1, MaxQuota},
		{"InFlightMax", cmp.Or(it.InFlightMax, DefaultInFlight), 1, MaxInFlight},
	} {
		if bound.n < bound.low || bound.n > bound.high {
			return failure.At(ErrInvalid, at+bound.field, "is %d, and must be from %d to %d", bound.n, bound.low, bound.high)
		}
	}
	return nil
}
