package history

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// A Change is what an operator asked for.
type Change struct {
	ID        string
	At        time.Time
	Actor     string // name of the token, or "local" without tokens
	Action    string // id of the operation, such as pause-sale
	Target    string // path of the request
	Detail    string // the request, as JSON
	Outcome   string // "done", or the reason why not
	RequestID string
}

// Changes are what operators changed.
type Changes struct{ h *History }

// Changes are those of a history.
func (h *History) Changes() Changes { return Changes{h} }

// Record keeps a change.
func (c Changes) Record(ctx context.Context, e Change) error {
	_, err := c.h.db.Exec(ctx, `
		INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		e.ID, e.At, e.Actor, e.Action, e.Target, e.Detail, e.Outcome, e.RequestID)
	if err != nil {
		return fmt.Errorf("history: record %s: %w", e.Action, err)
	}
	return nil
}

// List returns up to limit changes, the newest first: those after the one with the ID after, or from the newest if that is empty.
// An ID that is not known has nothing after it. The error may be ErrUnavailable.
func (c Changes) List(ctx context.Context, after string, limit int) ([]Change, error) {
	p := page{columns: "id, at, actor, action, target, detail, outcome, request_id", table: "audit_events", after: after, limit: limit}
	return list(ctx, c.h, p, func(e *Change) []any {
		return []any{&e.ID, (*sqldb.Time)(&e.At), &e.Actor, &e.Action, &e.Target, &e.Detail, &e.Outcome, &e.RequestID}
	})
}
