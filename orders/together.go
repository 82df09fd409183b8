package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/batch"
)

// Reads, payments and cancellations that come at the same time share statements: a statement, its round trip and its transaction cost
// more than the row.
const (
	togetherMax    = 200 // orders of a statement
	togetherAtOnce = 2   // statements of a kind: while one waits for the disk, the next fills
)

// inputs are the orders of a batch.
func inputs[Out any](calls []*batch.Call[ID, Out]) []ID {
	ids := make([]ID, len(calls))
	for i, c := range calls {
		ids[i] = c.In
	}
	return ids
}

// giveUp gives a batch its error. If the database refused it, the fault may be one order's, so each runs again by itself.
func giveUp[In, Out any](calls []*batch.Call[In, Out], err error, again func([]*batch.Call[In, Out])) {
	for i, c := range calls {
		if len(calls) > 1 && !errors.Is(err, ErrUnavailable) {
			again(calls[i : i+1])
		} else {
			c.Err = err
		}
	}
}

// together has a call join a batch. A caller that gives up, or finds too many waiting, has ErrUnavailable.
func together[In, Out any](ctx context.Context, b *batch.Batcher[In, Out], in In) (Out, error) {
	out, err := b.Do(ctx, in)
	if err != nil && (errors.Is(err, batch.ErrFull) || errors.Is(err, ctx.Err())) {
		err = fmt.Errorf("%w: database: %w", ErrUnavailable, err)
	}
	return out, err
}
