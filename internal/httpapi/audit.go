package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/audit"
)

// Audit keeps what operators changed, as an *audit.Log does.
type Audit interface {
	Record(ctx context.Context, e audit.Event) error
	// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty.
	List(ctx context.Context, after string, limit int) ([]audit.Event, error)
}

var auditRoute = huma.Operation{
	OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "What operators changed, the newest first",
	Tags: operating, Errors: []int{401, 403, 422, 503},
}

// auditWithin bounds how long a change waits for its event to be kept.
const auditWithin = 2 * time.Second

// audited is a handler that leaves an event, whatever came of it.
func audited[I, O any](a *API, op huma.Operation, handler func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		a.note(ctx, op.OperationID, in, err)
		return out, err
	}
}

// note keeps that somebody asked for a change. What was done stays done where the event cannot be kept; the log says so.
func (a *API) note(ctx context.Context, action string, asked any, err error) {
	if a.audit == nil {
		return
	}
	r := requestOf(ctx)
	e := audit.Event{
		ID: rand.Text(), At: time.Now(), Actor: r.token, Action: action, Target: r.http.URL.Path, Outcome: "done", RequestID: r.id,
	}
	if e.Actor == "" {
		e.Actor = "local"
	}
	if err != nil {
		e.Outcome = problemOf(err).Reason
	}
	detail, err := json.Marshal(asked)
	if err == nil {
		e.Detail = string(detail)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
		defer cancel()
		err = a.audit.Record(within, e)
	}
	if err != nil {
		a.log.LogAttrs(ctx, slog.LevelError, "a change is missing in the audit log", slog.String("request_id", e.RequestID),
			slog.String("actor", e.Actor), slog.String("action", action), slog.String("path", quoted(e.Target)), slog.Any("error", err))
	}
}

type auditView struct {
	_ struct{} `additionalProperties:"true"`

	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor" doc:"Name of the token; local: there are no tokens"`
	Action    string    `json:"action" doc:"Id of the operation"`
	Target    string    `json:"target" doc:"Path of the request"`
	Detail    string    `json:"detail" doc:"What was asked, as JSON"`
	Outcome   string    `json:"outcome" doc:"done, or the reason why not"`
	RequestID string    `json:"request_id"`
}

func (a *API) listAudit(ctx context.Context, in *Paging) (*pageOutput[auditView], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	events, err := a.audit.List(ctx, string(after), in.Limit)
	if err != nil {
		return nil, err
	}
	out := &pageOutput[auditView]{CacheControl: "no-store", Body: page[auditView]{Items: []auditView{}}}
	for i := range events {
		e := &events[i]
		out.Body.Items = append(out.Body.Items, auditView{
			ID: e.ID, At: instant(e.At), Actor: e.Actor, Action: e.Action, Target: e.Target, Detail: e.Detail, Outcome: e.Outcome, RequestID: e.RequestID,
		})
	}
	if len(events) == in.Limit {
		out.Body.NextCursor = cursor([]byte(events[len(events)-1].ID))
	}
	return out, nil
}
