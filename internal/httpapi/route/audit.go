package route

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// An Auditor stores events: what operators change, and what they were refused.
type Auditor interface {
	Note(ctx context.Context, action string, detail any, outcome error)
	// Refused is Note for a call that may be of a token whose role does not permit it.
	Refused(ctx context.Context, action string, detail any, outcome error)
	// ByOperator reports whether a call to a route of several roles is an operator's.
	ByOperator(ctx context.Context) bool
}

// A detailed input returns what an event stores besides the path. Other inputs store nothing: they add no information, or
// contain secrets.
type detailed interface{ AuditDetail() any }

type reachedKey struct{}

func always(context.Context) bool { return true }

// auditedOf wraps a handler so that calls of which due returns true store an event, whatever the outcome, before the response.
func auditedOf[I, O any](
	l Auditor, operation string, due func(context.Context) bool, handle func(context.Context, *I) (*O, error),
) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		if !due(ctx) {
			return handle(ctx, in)
		}
		if reached, ok := ctx.Value(reachedKey{}).(*bool); ok {
			*reached = true
		}
		outcome := error(problem.New(problem.Internal)) // of a panic
		defer func() {
			var detail any
			if in, ok := any(in).(detailed); ok {
				detail = in.AuditDetail()
			}
			l.Note(ctx, operation, detail, outcome)
		}()
		out, err := handle(ctx, in)
		outcome = err
		return out, err
	}
}

// auditRefused stores an event for a request that was refused before its handler ran: because of its token's role, or because
// it is invalid.
func auditRefused(l Auditor, operation string) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		reached := false
		next(huma.WithValue(ctx, reachedKey{}, &reached))
		if !reached {
			l.Refused(ctx.Context(), operation, nil, problem.New(problem.OfStatus(humaecho.Unwrap(ctx).Response().Status)))
		}
	}
}

// auditPlain is auditedOf and auditRefused for a plain route, and comes before the check of the role. What the handler sets in the context
// under the key detail is stored.
func auditPlain(l Auditor, operation, detail string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			outcome := error(problem.New(problem.Internal)) // of a panic
			defer func() { l.Refused(c.Request().Context(), operation, c.Get(detail), outcome) }()
			err := next(c)
			outcome = err
			if status := c.Response().Status; err == nil && status >= http.StatusBadRequest {
				outcome = problem.New(problem.OfStatus(status))
			}
			return err
		}
	}
}
