package recent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, away := 0, errors.New("away")
		var err error
		s := New(2*time.Second, func(ctx context.Context) (int, error) {
			asked++
			select {
			case <-time.After(time.Second):
				return asked, err
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		began := time.Now()
		wants := func(step string, questions, value int, answered time.Duration, failed error) {
			t.Helper()
			last := s.Last()
			if asked != questions || last.Value != value || last.At.Sub(began) != answered || !errors.Is(last.Err, failed) {
				t.Errorf("%s: asked %d times; %+v", step, asked, last)
			}
		}
		if last := s.Last(); !last.At.IsZero() || last.Err != nil {
			t.Errorf("before anybody asked: %+v", last)
		}
		<-s.Asking() // nobody asks
		first := s.Ask(t.Context(), 0)
		if again := s.Ask(t.Context(), 0); again != first || s.Asking() != first {
			t.Error("two questions at a time")
		}
		<-first
		wants("an answer for both", 1, 1, time.Second, nil)
		<-s.Ask(t.Context(), time.Minute)
		wants("fresh enough", 1, 1, time.Second, nil)
		err = away
		<-s.Ask(t.Context(), 0)
		wants("an error keeps what was said before", 2, 1, time.Second, away)
		<-s.Ask(t.Context(), time.Minute)
		wants("it is not asked again at once", 2, 1, time.Second, away)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		<-s.Ask(ctx, 0)
		wants("nobody wants to know any more", 3, 1, time.Second, context.Canceled)
	})
}

func TestNobodyToAsk(t *testing.T) {
	s := New[int](time.Second, nil)
	<-s.Ask(t.Context(), 0)
	if last := s.Last(); !last.At.IsZero() || last.Err != nil {
		t.Errorf("%+v", last)
	}
}
