package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/paging"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
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

// A detailed input returns what an event stores besides the path. Other inputs store nothing: they add no information, or
// contain secrets.
type detailed interface{ AuditDetail() any }

type reachedKey struct{}

// Handler wraps a handler so that it stores an event, whatever the outcome, before the response.
func Handler[I, O any](l *Log, op huma.Operation, handler func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		if reached, ok := ctx.Value(reachedKey{}).(*bool); ok {
			*reached = true
		}
		outcome := error(problem.New(problem.Internal)) // of a panic
		defer func() {
			var detail any
			if in, ok := any(in).(detailed); ok {
				detail = in.AuditDetail()
			}
			l.Note(ctx, op.OperationID, detail, outcome)
		}()
		out, err := handler(ctx, in)
		outcome = err
		return out, err
	}
}

// ByOperators is Handler for an operation that services also perform routinely: only calls by operators store an event. Without
// a file of tokens every caller is an operator, and nothing is stored.
func ByOperators[I, O any](l *Log, op huma.Operation, handler func(context.Context, *I) (*O, error)) func(context.Context, *I) (*O, error) {
	stored := Handler(l, op, handler)
	return func(ctx context.Context, in *I) (*O, error) {
		if l.Tokens != nil && l.Tokens.FromFile() && request.Of(ctx).Grant.Role == auth.RoleOperator {
			return stored(ctx, in)
		}
		return handler(ctx, in)
	}
}

// Refused stores an event for a request that was refused before its handler ran: because of its token's role, or because
// it is invalid.
func (l *Log) Refused(op huma.Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		reached := false
		next(huma.WithValue(ctx, reachedKey{}, &reached))
		if reached {
			return
		}
		r := request.Of(ctx.Context())
		var detail any
		if !r.Grant.Role.May(auth.ForOperators) {
			before, due := l.forbidden.due(r.Grant.Name, op.OperationID, time.Now())
			if !due {
				return
			}
			if before > 0 {
				detail = map[string]int{"refused_before": before}
			}
		}
		l.Note(ctx.Context(), op.OperationID, detail, problem.New(problem.OfStatus(humaecho.Unwrap(ctx).Response().Status)))
	}
}

// Middleware is Handler and Refused for a route that is not registered with Huma, and comes before the check of the role. What the handler
// sets in the context under the key detail is stored.
func (l *Log) Middleware(operation, detail string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			outcome := error(problem.New(problem.Internal)) // of a panic
			defer func() {
				stored := c.Get(detail)
				if r := request.Of(ctx); !r.Grant.Role.May(auth.ForOperators) {
					before, due := l.forbidden.due(r.Grant.Name, operation, time.Now())
					if !due {
						return
					}
					if before > 0 {
						stored = map[string]int{"refused_before": before}
					}
				}
				l.Note(ctx, operation, stored, outcome)
			}()
			err := next(c)
			outcome = err
			if status := c.Response().Status; err == nil && status >= http.StatusBadRequest {
				outcome = problem.New(problem.OfStatus(status))
			}
			return err
		}
	}
}

// Note stores an event: who asked for a change, and the outcome. If the event cannot be stored, the change is not undone; the
// log says that the event is missing.
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
			slog.String("actor", e.Actor), slog.String("action", action), slog.String("path", e.Target), slog.String("outcome", e.Outcome), slog.Any("error", err))
	}
}

// target returns the path of a request, without the id of a permit, which is a secret of its holder, and with the reference of an anonymous
// order instead of its id. They are found by the route, because path segments such as the name of a user may contain anything.
func target(r *request.Info) string {
	path := r.HTTP.URL.Path
	if id := r.Echo.Param("id"); id != "" && r.Order != (orders.ID{}) {
		return strings.Replace(path, id, r.Order.String(), 1)
	}
	if strings.HasSuffix(r.Echo.Path(), "/permits/:id") {
		before, _, _ := strings.Cut(path, "/permits/")
		return before + "/permits/…"
	}
	return path
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

// List lists the changes, the newest first.
func (l *Log) List(ctx context.Context, in *paging.Paging) (*paging.Output[auditView], error) {
	list := func(after string) ([]history.Change, error) { return l.Store.List(ctx, after, in.Limit) }
	return paging.History(*in, list, viewChange, func(e *history.Change) string { return e.ID })
}

func viewChange(e *history.Change) auditView {
	return auditView{
		ID: e.ID, At: jsontime.Instant(e.At), Actor: e.Actor, Action: e.Action, Target: e.Target, Detail: e.Detail, Outcome: e.Outcome, RequestID: e.RequestID,
	}
}
