package loadshed

import (
	"context"
	"sync"
	"time"
)

// A deadline is a context like that of context.WithDeadline, but makes it only if Done or Err is called. Most decisions only
// look at the time: those from memory, and those that wait for a script with others. For a refusal a timer would be one of the
// most expensive steps.
type deadline struct {
	context.Context // the parent
	at              time.Time

	once   sync.Once
	made   context.Context
	cancel context.CancelFunc
}

// Bounded returns ctx with a deadline, unless within is 0. cancel must be called.
func Bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if within == 0 {
		return ctx, func() {}
	}
	at := time.Now().Add(within)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	d := &deadline{Context: ctx, at: at}
	return d, d.end
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.make().Done() }

// Err implements context.Context.
func (d *deadline) Err() error { return d.make().Err() }

func (d *deadline) make() context.Context {
	d.once.Do(func() { d.made, d.cancel = context.WithDeadline(d.Context, d.at) })
	return d.made
}

func (d *deadline) end() {
	d.once.Do(func() { d.made, d.cancel = ended, func() {} })
	d.cancel()
}

// ended is a cancelled context.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
