package waitingroom

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

const (
	batchMax         = 500
	batchesAtOnce    = 2  // of a room
	stockCallsAtOnce = 50 // of a batch
	statementTimeout = 10 * time.Second
)

// taking returns the calls of a batch, and begins it. A batch that needs the lock of its room takes them when it has the lock:
// calls that arrive while it waits are in it then.
type taking[In, Out any] = func() []*batch.Call[In, Out]

// batchers have a batcher for each room, so that no room waits for the lock of another. There are few rooms, and none is removed.
type batchers[In, Out any] struct {
	run func(ctx context.Context, room string, take taking[In, Out])

	mu sync.Mutex
	of map[string]*batch.Batcher[In, Out] // by room, guarded by mu
}

func newBatchers[In, Out any](run func(ctx context.Context, room string, take taking[In, Out])) *batchers[In, Out] {
	return &batchers[In, Out]{run: run, of: make(map[string]*batch.Batcher[In, Out])}
}

// Do makes a call to a room that exists, in its next batch.
func (b *batchers[In, Out]) Do(ctx context.Context, room string, in In) (Out, error) {
	out, err := b.room(room).Do(ctx, in)
	if err != nil && (errors.Is(err, batch.ErrNotRun) || errors.Is(err, ctx.Err())) {
		err = store.Unavailable(err)
	}
	return out, err
}

func (b *batchers[In, Out]) room(name string) *batch.Batcher[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[name]
	if of == nil {
		of = batch.NewLate(batchMax, batchesAtOnce, func(ctx context.Context, take func() []*batch.Call[In, Out]) {
			ctx, cancel := context.WithTimeout(ctx, statementTimeout)
			defer cancel()
			b.run(ctx, name, take)
		})
		b.of[name] = of
	}
	return of
}
