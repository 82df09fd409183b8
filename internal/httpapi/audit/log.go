package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/loglimit"
	"github.com/tidegate/tidegate/orders"
)

// A Store stores what operators changed, like history.Changes.
type Store interface {
	Record(ctx context.Context, e history.Change) error
	// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty.
	List(ctx context.Context, after string, limit int) ([]history.Change, error)
}

// A Log records changes. It is safe for concurrent use once its fields are set.
type Log struct {
	Store     Store        // nil: nothing is stored
	Tokens    *auth.Tokens // nil: there are none
	Logger    *slog.Logger
	forbidden forbiddenCalls
}

const (
	storeWithin = 2 * time.Second // how long a change waits for its event to be stored
	maxDetail   = 2048            // bytes of an event
)

// ByOperator reports whether a call is an operator's. Without a file of tokens every caller is an operator, and none is reported.
func (l *Log) ByOperator(ctx context.Context) bool {
	return l.Tokens != nil && l.Tokens.FromFile() && request.Of(ctx).Grant.Role == auth.RoleOperator
}

// Refused is Note for a call that may be of a token whose role does not permit it. Of such calls it stores one a minute per token and
// operation, with how many it did not store.
func (l *Log) Refused(ctx context.Context, action string, detail any, outcome error) {
	if r := request.Of(ctx); !r.Grant.Role.May(auth.ForOperators) {
		before, due := l.forbidden.due(r.Grant.Name, action, time.Now())
		if !due {
			return
		}
		if before > 0 {
			detail = map[string]int{"refused_before": before}
		}
	}
	l.Note(ctx, action, detail, outcome)
}

// Note stores an event: who asked for a change, and the outcome. If the event cannot be stored, the change is not undone, and the
// program's log reports the missing event.
func (l *Log) Note(ctx context.Context, action string, detail any, outcome error) {
	if l.Store == nil {
		return
	}
	r := request.Of(ctx)
	e := history.Change{
		ID: rand.Text(), At: time.Now(), Actor: cmp.Or(r.Grant.Name, request.LocalActor), Action: action, Target: input.Shortened(target(r)),
		Outcome: "done", RequestID: r.ID,
	}
	e.Target = strings.Map(printable, e.Target) // Postgres refuses some control characters
	if outcome != nil {
		e.Outcome = problem.Of(outcome).Reason
	}
	var err error
	if detail != nil {
		var text []byte
		text, err = json.Marshal(detail)
		if e.Detail = string(text); len(text) > maxDetail {
			e.Detail = strings.ToValidUTF8(string(text[:maxDetail]), "") + "…"
		}
	}
	if err == nil {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
		defer cancel()
		err = l.Store.Record(within, e)
	}
	if err != nil {
		l.Logger.LogAttrs(loglimit.Keep(ctx), slog.LevelError, "a change is missing in the audit log", slog.String("request_id", e.RequestID),
			slog.String("actor", e.Actor), slog.String("action", action), slog.String("path", e.Target), slog.String("outcome",
				e.Outcome), slog.Any("error", err))
	}
}

// target returns the path of a request, without the id of a permit, which is a secret of its holder, and with the reference of an anonymous
// order instead of its id. It is put together from the route where that has an id, because other segments, such as names, may
// contain anything.
func target(r *request.Info) string {
	segments := strings.Split(r.Echo.Path(), "/")
	if !slices.Contains(segments, ":id") {
		return r.HTTP.URL.Path
	}
	for i, segment := range segments {
		name, parameter := strings.CutPrefix(segment, ":")
		switch {
		case name == "id" && r.Order != (orders.ID{}):
			segments[i] = r.Order.String()
		case name == "id": // a permit's, or that of an order which is none or has no reference yet
			segments[i] = "…"
		case parameter:
			segments[i] = r.Echo.Param(name)
		}
	}
	return strings.Join(segments, "/")
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return unicode.ReplacementChar
	}
	return r
}

type auditView struct {
	_ struct{} `additionalProperties:"true"`

	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor" doc:"Name of the token; local: there are no tokens"`
	Action    string    `json:"action" doc:"Id of the operation"`
	Target    string    `json:"target" doc:"Path of the request, without secrets"`
	Detail    string    `json:"detail" doc:"What was asked besides, as JSON; of more than 2048 bytes the beginning"`
	Outcome   string    `json:"outcome" doc:"done, or the reason why not"`
	RequestID string    `json:"request_id"`
}

// Routes are the routes of the log, if there is one.
func (l *Log) Routes() []route.Route {
	if l.Store == nil {
		return nil
	}
	return []route.Route{route.Of(route.Route{
		Operation: huma.Operation{
			OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "What operators changed, the newest first",
			Tags: route.TagOperating, Errors: []int{401, 403, 422, 503},
		},
		Roles: auth.ForViewers,
	}, l.List)}
}

// List lists the changes, the newest first.
func (l *Log) List(ctx context.Context, in *response.Paging) (*response.PageOutput[auditView], error) {
	list := func(after string) ([]history.Change, error) { return l.Store.List(ctx, after, in.Limit) }
	return response.HistoryPage(*in, list, viewChange, func(e *history.Change) string { return e.ID })
}

func viewChange(e *history.Change) auditView {
	return auditView{
		ID: e.ID, At: response.Instant(e.At), Actor: e.Actor, Action: e.Action, Target: e.Target, Detail: e.Detail, Outcome: e.Outcome,
		RequestID: e.RequestID,
	}
}
