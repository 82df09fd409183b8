package history

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/login"
)

// Logins are what rules did about failed logins, since when and until when. They contain no names.
type Logins struct{ h *History }

// Logins are those of a history.
func (h *History) Logins() Logins { return Logins{h} }

var _ login.History = Logins{}

// Record implements login.History: all events are kept, or none, and one that is kept already is not kept again.
func (l Logins) Record(ctx context.Context, events []login.Event) error {
	return l.h.record(ctx, len(events), func(tx sqldb.Conn, i int) error {
		e := &events[i]
		_, err := tx.Exec(ctx, `
			INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING`,
			e.ID, e.At, e.Rule, string(e.Count), string(e.Action), e.Factor, e.Name, e.IP, orNull(e.Until), e.Times, e.Shadow)
		return err
	})
}

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// List returns up to limit events of a reference to a name, or of all if that is empty, the newest first: those after the one with the ID
// after, or from the newest if that is empty. An ID that is not known has nothing after it. The error may be ErrUnavailable.
func (l Logins) List(ctx context.Context, reference, after string, limit int) ([]login.Event, error) {
	p := page{
		columns: "id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow", table: "login_events", after: after,
		limit: limit,
	}
	if reference != "" {
		p.where, p.with = " AND name_reference <> '' AND name_reference = $2", []any{reference} // the former leads to the index
	}
	return list(ctx, l.h, p, func(e *login.Event) []any {
		return []any{
			&e.ID, (*sqldb.Time)(&e.At), &e.Rule, &e.Count, &e.Action, &e.Factor, &e.Name, &e.IP, (*sqldb.Time)(&e.Until), &e.Times, &e.Shadow,
		}
	})
}

// BannedFor returns the factors whose failures got addresses banned that look like ip when masked. The error may be ErrUnavailable.
func (l Logins) BannedFor(ctx context.Context, ip string) ([]string, error) {
	const query = "SELECT DISTINCT factor FROM login_events WHERE ip_masked = $1 AND action = 'ban'"
	return read(ctx, l.h, query, []any{ip}, func(factor *string) []any { return []any{factor} })
}
