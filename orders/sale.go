package orders

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/names"
)

// State is the state of a sale for a buyer.
type State string

// The states of a sale. A draft, which is not published yet, reads as scheduled.
const (
	StateScheduled  State = "scheduled"
	StateOpen       State = "open"
	StatePaused     State = "paused"
	StateRecovering State = "recovering"
	StateEnded      State = "ended"
	StateClosed     State = "closed"
)

// Switch is the operator's setting. Together with the hours and the clock it determines the State.
type Switch string

// The positions of the switch. Closed is final.
const (
	SwitchDraft  Switch = "draft"
	SwitchOpen   Switch = "open"
	SwitchPaused Switch = "paused"
	SwitchClosed Switch = "closed"
)

// Item is something on sale: units 1..Stock of it.
type Item struct {
	ID            string
	Number        int    // in every order id; assigned by the store
	Stock         int    // only grows
	QuotaPerBuyer int    // units of live and paid orders a buyer may hold
	HighestQuota  int    // the highest quota so far; maintained by the store
	InFlightMax   int    // orders accepted and not yet committed
	Final         bool   // the stock grows no more; it stays final
	Room          string // waiting room that orders must have come through, set by SetRoom; empty: none
}

// Sale is a sale as the database holds it. Operators put a Definition.
type Sale struct {
	ID           string
	Switch       Switch
	StartsAt     time.Time
	EndsAt       time.Time
	RequiresUser bool
	Hold         time.Duration // time to pay after the commit; zero: a confirmed order is final
	Salt         []byte        // keys the hashes of buyers and idempotency keys
	Epoch        int64         // part of every Redis key of the sale
	EpochToken   string        // of the leader that raised the sale to its epoch; empty in the first
	EpochFloor   int64         // lowest epoch whose reservations are committed as they are; below Epoch during a recovery
	Revision     int64         // grows with every change; in an amendment the revision that it was made from, or 0
	Items        []Item
}

// Item returns the item with that id.
func (s *Sale) Item(id string) (*Item, bool) {
	i := slices.IndexFunc(s.Items, func(it Item) bool { return it.ID == id })
	if i < 0 {
		return nil, false
	}
	return &s.Items[i], true
}

// stateAt returns the state at a time of Redis' clock. It ignores recoveries.
func (s *Sale) StateAt(now time.Time) State {
	switch {
	case s.Switch == SwitchClosed:
		return StateClosed
	case !now.Before(s.EndsAt):
		return StateEnded
	case s.Switch == SwitchPaused:
		return StatePaused
	case s.Switch == SwitchDraft, now.Before(s.StartsAt):
		return StateScheduled
	}
	return StateOpen
}

// Amend returns the sale with the changed definition in def applied. Switch, epoch, salt, numbers and revision stay. It returns
// ErrConflict, wrapped with the cause: the sale is closed, the stock of an item would shrink, an item is missing, or the sale
// was changed after def was made from it.
func (s *Sale) Amend(def Sale) (amended Sale, changed bool, err error) {
	conflict := func(format string, args ...any) (Sale, bool, error) {
		return Sale{}, false, failure.New(ErrConflict, format, args...)
	}
	if def.Revision != 0 && def.Revision != s.Revision {
		return conflict("sale %s was changed meanwhile: it is of revision %d, not %d", s.ID, s.Revision, def.Revision)
	}
	amended = *s
	amended.StartsAt, amended.EndsAt = def.StartsAt.UTC(), def.EndsAt.UTC()
	amended.RequiresUser, amended.Hold = def.RequiresUser, def.Hold
	amended.Items = slices.Clone(s.Items)
	defined := make(map[string]*Item, len(def.Items))
	for i := range def.Items {
		defined[def.Items[i].ID] = &def.Items[i]
	}
	for i, it := range s.Items {
		next := defined[it.ID]
		delete(defined, it.ID)
		switch {
		case next == nil:
			return conflict("item %s is on sale and cannot be dropped", it.ID)
		case next.Stock < it.Stock:
			return conflict("the stock of item %s is %d and cannot shrink to %d", it.ID, it.Stock, next.Stock)
		case it.Final && next.Stock > it.Stock:
			return conflict("the stock of item %s was declared final with %d", it.ID, it.Stock)
		case it.Final && !next.Final:
			return conflict("the stock of item %s was declared final, and stays so", it.ID)
		}
		amended.Items[i] = *next
		amended.Items[i].Number, amended.Items[i].HighestQuota, amended.Items[i].Room = it.Number, it.HighestQuota, it.Room
	}
	for _, it := range def.Items {
		if defined[it.ID] != nil {
			amended.Items = append(amended.Items, it)
		}
	}
	changed = !amended.StartsAt.Equal(s.StartsAt) || !amended.EndsAt.Equal(s.EndsAt) ||
		amended.RequiresUser != s.RequiresUser || amended.Hold != s.Hold || !slices.Equal(amended.Items, s.Items)
	if changed && s.Switch == SwitchClosed {
		return conflict("sale %s is closed for good", s.ID)
	}
	return amended, changed, nil
}

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
		ID: d.ID, StartsAt: d.StartsAt.UTC().Truncate(time.Millisecond), EndsAt: d.EndsAt.UTC().Truncate(time.Millisecond),
		RequiresUser: !d.Anonymous,
		Hold:         max(0, cmp.Or(d.Hold, DefaultHold)), Revision: d.Revision, Items: make([]Item, len(d.Items)),
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

const nameShape = "must be " + names.Length + " letters, digits, dots, underscores or hyphens, starting with a letter or digit"

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

// ValidName reports whether s may name a sale or an item: 1 to names.Longest of A-Z a-z 0-9 . _ -, of which the first is a letter or digit.
func ValidName(s string) bool { return names.SaleOrItem(s) }
