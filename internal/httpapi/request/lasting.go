package request

import (
	"context"
	"time"
)

// askEvery is how often a wait or a stream asks whether its caller may still have the answer.
const askEvery = 500 * time.Millisecond

// StillAllowed returns an error unless the caller would be let in again: a token may have been removed or have expired, and a session
// may have ended.
func (r *Info) StillAllowed() error {
	if r.Guard != nil {
		if err := r.Guard.Holds(r.HTTP, r.Grant); err != nil {
			return err
		}
	}
	return r.Caller.Holds()
}

// Lasting returns the context of an answer that takes long. It ends with ctx, and within a second after StillAllowed has begun to return
// an error, which is then its cause. end releases its resources.
func Lasting(ctx context.Context) (lasting context.Context, end func()) {
	r := Of(ctx)
	if r.Guard == nil && !r.Caller.Expires() {
		return ctx, func() {}
	}
	lasting, cancel := context.WithCancelCause(ctx)
	var ask func()
	ask = func() {
		if lasting.Err() != nil {
			return
		}
		if err := r.StillAllowed(); err != nil {
			cancel(err)
			return
		}
		time.AfterFunc(askEvery, ask)
	}
	time.AfterFunc(askEvery, ask)
	return lasting, func() { cancel(nil) }
}
