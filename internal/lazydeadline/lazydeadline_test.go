package lazydeadline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestContextEndsLikeThatOfPackageContext(t *testing.T) {
	type value struct{}
	for name, c := range map[string]struct {
		end            func(cancelParent, end context.CancelFunc)
		want, detached error
	}{
		"not yet":          {func(_, _ context.CancelFunc) { time.Sleep(time.Second - 1) }, nil, nil},
		"at its time":      {func(_, _ context.CancelFunc) { time.Sleep(time.Second) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"with its parent":  {func(cancelParent, _ context.CancelFunc) { cancelParent() }, context.Canceled, nil},
		"when it is ended": {func(_, end context.CancelFunc) { end() }, context.Canceled, context.Canceled},
	} {
		for _, detached := range []bool{false, true} {
			for _, asked := range []bool{false, true} { // for its channel, before it ends
				synctest.Test(t, func(t *testing.T) {
					parent, cancelParent := context.WithTimeout(context.WithValue(t.Context(), value{}, name), time.Minute)
					defer cancelParent()
					ctx, want := Within(parent, time.Second), c.want
					if detached {
						ctx, want = Detached(parent, time.Now().Add(time.Second)), c.detached
					}
					defer ctx.End()
					if at, only := Only(ctx); only != detached || only && time.Until(at) != time.Second {
						t.Errorf("%s: only a deadline: %t, %v", name, only, at)
					}
					if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || ctx.Value(value{}) != name {
						t.Errorf("%s: deadline %v, %t, value %v", name, at, ok, ctx.Value(value{}))
					}
					if asked {
						select {
						case <-ctx.Done():
							t.Errorf("%s: ended at once", name)
						default:
						}
					}
					c.end(cancelParent, ctx.End)
					synctest.Wait()
					if err := ctx.Err(); !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", name, err, want)
					}
					select {
					case <-ctx.Done():
						if want == nil {
							t.Errorf("%s: done", name)
						}
					default:
						if want != nil {
							t.Errorf("%s: not done", name)
						}
					}
				})
			}
		}
	}
}

func TestDeadlineIsNotAfterItsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancelParent := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancelParent()
		for ctx, limit := range map[*Context]time.Duration{
			Within(parent, time.Second): time.Millisecond, Within(parent, 0): time.Millisecond,
			Detached(parent, time.Now().Add(time.Second)): time.Second,
		} {
			if at, _ := ctx.Deadline(); time.Until(at) != limit {
				t.Errorf("deadline in %v, want %v", time.Until(at), limit)
			}
			ctx.End()
		}
	})
}

func TestWithoutADeadlineItEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		detached := Detached(t.Context(), time.Time{})
		defer detached.End()
		if at, only := Only(detached); only || detached.Err() != nil {
			t.Errorf("only a deadline %v, %v", at, detached.Err())
		}
		parent, cancelParent := context.WithCancel(t.Context())
		ctx := Within(parent, 0)
		defer ctx.End()
		if at, ok := ctx.Deadline(); ok {
			t.Errorf("deadline %v", at)
		}
		select {
		case <-ctx.Done():
			t.Error("ended at once")
		case <-time.After(time.Hour):
		}
		cancelParent()
		if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) {
			t.Error(ctx.Err())
		}
	})
}
