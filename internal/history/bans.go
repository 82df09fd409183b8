package history

import (
	"context"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/sqldb"
)

// Bans are who was banned or let in again, when, for how long and why.
type Bans struct{ h *History }

// Bans are those of a history.
func (h *History) Bans() Bans { return Bans{h} }

var _ bans.History = Bans{}

// Record implements bans.History: all events are kept, or none, and one that is kept already is not kept again.
func (b Bans) Record(ctx context.Context, events []bans.Event) error {
	return b.h.record(ctx, len(events), func(tx sqldb.Conn, i int) error {
		e := &events[i]
		_, err := tx.Exec(ctx, `
			INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING`,
			e.ID, e.At, e.Lifted, string(e.Kind), e.Value, e.Reason, e.Rule, e.Since, e.Until, e.Times)
		return err
	})
}

// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty. An ID
// that is not known has nothing after it. The error may be ErrUnavailable.
func (b Bans) List(ctx context.Context, after string, limit int) ([]bans.Event, error) {
	p := page{columns: "id, at, lifted, kind, value, reason, rule, since, until, times", table: "ban_events", after: after, limit: limit}
	return list(ctx, b.h, p, func(e *bans.Event) []any {
		return []any{
			&e.ID, (*sqldb.Time)(&e.At), &e.Lifted, &e.Kind, &e.Value, &e.Reason, &e.Rule, (*sqldb.Time)(&e.Since), (*sqldb.Time)(&e.Until),
			&e.Times,
		}
	})
}
