package orders

import (
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

// ValidName reports whether s may name a sale or an item: 1 to 64 of A-Z a-z 0-9 . _ -, of which the first is a letter or digit.
func ValidName(s string) bool { return names.Mixed(s, "._-", 64) && names.Mixed(s[:1], "", 1) }
