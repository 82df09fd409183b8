package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/orders"
)

// Reads, payments and cancellations that arrive at the same time share statements: a statement, its round trip and its
// transaction cost more than the row.
const (
	StatementMax     = 200             // orders of a statement
	StatementTimeout = 5 * time.Second // for a payment or a cancellation
	StatementsAtOnce = 2               // statements of a kind: while one waits for the disk, the next fills
)

// Inputs are the orders of a batch.
func Inputs[Out any](calls []*batch.Call[orders.ID, Out]) []orders.ID {
	ids := make([]orders.ID, len(calls))
	for i, c := range calls {
		ids[i] = c.In
	}
	return ids
}

// FailBatch sets the error of a batch. If the database refused it, a single order may be the cause, so both halves run again.
func FailBatch[In, Out any](calls []*batch.Call[In, Out], err error, again func([]*batch.Call[In, Out])) {
	if !errors.Is(err, orders.ErrUnavailable) && Halve(calls, again) {
		return
	}
	for _, c := range calls {
		c.Err = err
	}
}

// Halve calls again with both halves of a batch that failed, of which one element may be the cause, or returns false for one element.
func Halve[T any](list []T, again func([]T)) bool {
	n := len(list) / 2
	if n == 0 {
		return false
	}
	again(list[:n])
	again(list[n:])
	return true
}

// Batched adds a call to a batch. It returns ErrUnavailable when ctx ends, or when too many calls wait.
func Batched[In, Out any](ctx context.Context, b *batch.Batcher[In, Out], in In) (Out, error) {
	out, err := b.Do(ctx, in)
	if err != nil && (errors.Is(err, batch.ErrFull) || errors.Is(err, ctx.Err())) {
		err = fmt.Errorf("%w: database: %w", orders.ErrUnavailable, err)
	}
	return out, err
}
