package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
)

// The schema is compared with that of package migrations at the start, by each process while it runs, and
// with the verifications of sales.
const (
	SchemaInterval = time.Minute
	// schemaMending is how often an incomplete schema is compared again, so that a process is ready soon after the repair.
	schemaMending = 5 * time.Second
)

// schemaInvariant names the schema among the invariants.
const schemaInvariant = "schema"

const schemaAdvice = "Somebody changed the schema. Pause the sale if a constraint is missing. Restore the parts that are named with " +
	"the SQL of the processes' logs or of tidegate migrate. Rows that break a constraint since have to be corrected before: the other " +
	"invariants show them."

// WatchSchema compares the schema until ctx ends, and reports what is missing as a condition.
func (a *Verifier) WatchSchema(ctx context.Context) error {
	wait := SchemaInterval // Open has compared it
	for periodic.Pause(ctx, periodic.Jitter(wait)) {
		wait = a.ReviewSchema(ctx, wait)
	}
	return ctx.Err()
}

// ReviewSchema compares the schema once, and returns how long to wait for the next time. wait is the result of the time before.
func (a *Verifier) ReviewSchema(ctx context.Context, wait time.Duration) time.Duration {
	switch err := a.Store.CheckSchema(ctx); {
	case errors.Is(err, orders.ErrUnavailable):
		return wait // what is known stays true
	case err == nil:
		if wait != SchemaInterval {
			a.Logger.InfoContext(ctx, "the schema of the database is complete again")
		}
		a.Conditions.Clear(orders.CauseSchema)
		return SchemaInterval
	default:
		if wait != schemaMending {
			a.Logger.ErrorContext(ctx, "the schema of the database is not what it was at the start", slog.Any("error", err))
		}
		// what is there instead may name a buyer
		parts, serves := describeSchema(err, func(d *migrations.Defect) string { return d.Part.String() })
		a.Conditions.Set(orders.Condition{
			Cause: orders.CauseSchema, Detail: "the database lacks " + joinSome(parts, ", "), Serves: serves,
			Err: err,
		})
		return schemaMending
	}
}

func (a *Verifier) Verify(ctx context.Context, sale string) ([]orders.Check, error) {
	schema, err := a.verifySchema(ctx)
	if err != nil {
		return nil, err
	}
	return a.verifyWith(ctx, schema, sale)
}

// verifySchema checks the schema. It returns ErrUnavailable.
func (a *Verifier) verifySchema(ctx context.Context) (orders.Check, error) {
	err := a.Store.CheckSchema(ctx)
	if errors.Is(err, orders.ErrUnavailable) {
		return orders.Check{}, err
	}
	schema := orders.Check{
		Invariant: schemaInvariant, OK: err == nil,
		Detail: "all tables, columns, constraints, indexes and triggers of the migrations are there",
	}
	if err != nil {
		parts, _ := describeSchema(err, (*migrations.Defect).String)
		schema.Breaches, schema.Detail, schema.Advice = len(parts), joinSome(parts, "; "), schemaAdvice
	}
	return schema, nil
}

// verifyWith is Verify with a schema that was checked before.
func (a *Verifier) verifyWith(ctx context.Context, schema orders.Check, sale string) ([]orders.Check, error) {
	list, err := a.verifyInvariants(ctx, sale)
	if !schema.OK && (errors.Is(err, orders.ErrUnavailable) || errors.Is(err, orders.ErrRecovering)) {
		// no statement runs on a table that is missing
		return []orders.Check{schema}, nil
	}
	if err != nil {
		return nil, err
	}
	return append(list, schema), nil
}

// joinSome joins the first parts, and counts the others.
func joinSome(parts []string, separator string) string {
	const most = 10
	text := strings.Join(parts[:min(len(parts), most)], separator)
	if n := len(parts) - most; n > 0 {
		text += fmt.Sprintf("%sand %d more", separator, n)
	}
	return text
}

// describeSchema lists what the schema lacks, by describe. serves: orders are taken and committed correctly nevertheless.
func describeSchema(err error, describe func(*migrations.Defect) string) (parts []string, serves bool) {
	var incomplete *migrations.IncompleteError
	if !errors.As(err, &incomplete) {
		return []string{err.Error()}, false
	}
	for i := range incomplete.Defects {
		parts = append(parts, describe(&incomplete.Defects[i]))
	}
	return parts, incomplete.OnlySlows()
}
