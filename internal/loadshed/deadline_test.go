package loadshed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineEndsLikeThatOfPackageContext(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancelParent, cancel context.CancelFunc)
		want error
	}{
		"not yet":             {func(_, _ context.CancelFunc) { time.Sleep(time.Second - 1) }, nil},
		"at its time":         {func(_, _ context.CancelFunc) { time.Sleep(time.Second) }, context.DeadlineExceeded},
		"with its parent":     {func(cancelParent, _ context.CancelFunc) { cancelParent() }, context.Canceled},
		"when it is canceled": {func(_, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		for _, asked := range []bool{false, true} { // before it ends
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithTimeout(t.Context(), time.Minute)
				defer cancelParent()
				ctx, cancel := Bounded(parent, time.Second)
				defer cancel()
				if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
					t.Errorf("%s: deadline %v, %t", name, at, ok)
				}
				if asked && ctx.Err() != nil {
					t.Errorf("%s: ended at once: %v", name, ctx.Err())
				}
				c.end(cancelParent, cancel)
				synctest.Wait()
				if err := ctx.Err(); !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", name, err, c.want)
				}
				select {
				case <-ctx.Done():
					if c.want == nil {
						t.Errorf("%s: done", name)
					}
				default:
					if c.want != nil {
						t.Errorf("%s: not done", name)
					}
				}
			})
		}
	}
}

func TestDeadlineIsNotAfterItsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancelParent := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancelParent()
		ctx, cancel := Bounded(parent, time.Second)
		defer cancel()
		if at, _ := ctx.Deadline(); time.Until(at) != time.Millisecond {
			t.Errorf("deadline in %v", time.Until(at))
		}
	})
}
