package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
)

// Reads, payments and cancellations that arrive at the same time share statements: a statement, its round trip and its
// transaction cost more than the row.
const (
	statementMax     = 200             // orders of a statement
	statementTimeout = 5 * time.Second // for a payment or a cancellation
	statementsAtOnce = 2               // statements of a kind: while one waits for the disk, the next fills
)

// inputs are the orders of a batch.
func inputs[Out any](calls []*batch.Call[ID, Out]) []ID {
	ids := make([]ID, len(calls))
	for i, c := range calls {
		ids[i] = c.In
	}
	return ids
}

// failBatch sets the error of a batch. If the database refused it, a single order may be the cause, so both halves run again.
func failBatch[In, Out any](calls []*batch.Call[In, Out], err error, again func([]*batch.Call[In, Out])) {
	if n := len(calls); n > 1 && !errors.Is(err, ErrUnavailable) {
		again(calls[:n/2])
		again(calls[n/2:])
		return
	}
	for _, c := range calls {
		c.Err = err
	}
}

// batched adds a call to a batch. It returns ErrUnavailable when ctx ends, or when too many calls wait.
func batched[In, Out any](ctx context.Context, b *batch.Batcher[In, Out], in In) (Out, error) {
	out, err := b.Do(ctx, in)
	if err != nil && (errors.Is(err, batch.ErrFull) || errors.Is(err, ctx.Err())) {
		err = fmt.Errorf("%w: database: %w", ErrUnavailable, err)
	}
	return out, err
}
