package periodic_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(ctx context.Context, turn func()) error
		want []time.Duration // of the first turns, in seconds, up to a tenth late
	}{
		"Every": {func(ctx context.Context, turn func()) error { return periodic.Every(ctx, time.Second, turn) }, []time.Duration{1, 2, 3}},
		"Until": {
			func(ctx context.Context, turn func()) error {
				return periodic.Until(ctx, time.Second, func() bool { turn(); return false })
			}, []time.Duration{0, 1, 2},
		},
		"Woken": {func(ctx context.Context, turn func()) error { return periodic.Woken(ctx, time.Second, nil, turn) }, []time.Duration{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				var turns []time.Duration
				err := c.run(ctx, func() {
					if turns = append(turns, time.Since(start).Round(time.Second)/time.Second); len(turns) == len(c.want) {
						cancel()
					}
				})
				if !errors.Is(err, context.Canceled) || !slices.Equal(turns, c.want) {
					t.Errorf("turns at %v, %v, want %v", turns, err, c.want)
				}
			})
		})
	}
}

func TestUntilEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		err := periodic.Until(t.Context(), time.Second, func() bool { n++; return n == 3 })
		if took := time.Since(start); err != nil || took != 2*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestWokenTurnsWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, turns := make(chan struct{}), make(chan struct{}, 2)
		done := make(chan error)
		go func() { done <- periodic.Woken(ctx, time.Hour, wake, func() { turns <- struct{}{} }) }()
		<-turns
		start := time.Now()
		wake <- struct{}{}
		<-turns
		if took := time.Since(start); took != 0 {
			t.Errorf("turned after %v", took)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			d    time.Duration
			took time.Duration
			want bool
		}{
			{t.Context(), time.Minute, time.Minute, true},
			{t.Context(), -1, 0, true},
			{ended, 0, 0, false},
			{ended, time.Hour, 0, false},
		} {
			start := time.Now()
			if got := periodic.Pause(c.ctx, c.d); got != c.want || time.Since(start) != c.took {
				t.Errorf("Pause(%v) = %t after %v, want %t after %v", c.d, got, time.Since(start), c.want, c.took)
			}
		}
	})
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if d := periodic.Jitter(100); d < 100 || d > 150 {
			t.Fatalf("Jitter(100) = %d", d)
		}
	}
	if d := periodic.Jitter(0); d != 0 {
		t.Errorf("Jitter(0) = %d", d)
	}
}
