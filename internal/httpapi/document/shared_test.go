package document

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			s       Shared
			reads   int
			version atomic.Int64
			takes   time.Duration
			failed  error
		)
		version.Store(1)
		get := func(name string) string {
			d, err := s.Get(t.Context(), name, func(context.Context) (any, func() bool, error) {
				reads++
				is := version.Load()
				time.Sleep(takes)
				return is, func() bool { return is == version.Load() }, failed
			})
			if err != nil {
				return err.Error()
			}
			return string(d.Text())
		}
		wants := func(step, name, text string, made int) {
			t.Helper()
			if got := get(name); got != text || reads != made {
				t.Errorf("%s: %q, %d read; want %q, %d", step, got, reads, text, made)
			}
		}
		wants("first", "a", "1\n", 1)
		time.Sleep(sharedFor - 1)
		wants("shared", "a", "1\n", 1)
		wants("another name", "b", "1\n", 2)
		time.Sleep(time.Nanosecond)
		wants("old", "a", "1\n", 3)
		version.Store(2)
		wants("changed", "a", "2\n", 4)
		failed = errors.New("away")
		version.Store(3)
		wants("an error", "a", "away", 5)
		failed = nil
		wants("is not kept", "a", "3\n", 6)

		takes = 50 * time.Millisecond
		version.Store(4)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { wants("together", "a", "4\n", 7) })
		}
		all.Wait()
		time.Sleep(9*takes - 1)
		wants("shared for longer, because it takes long", "a", "4\n", 7)
		time.Sleep(time.Nanosecond)
		takes = time.Minute
		wants("old", "a", "4\n", 8)
		time.Sleep(sharedMax)
		takes = time.Second
		go func() { time.Sleep(takes / 2); version.Store(5) }()
		wants("a change while it is read", "a", "5\n", 10)

		time.Sleep(2 * sharedMax)
		get("c")
		if len(s.latest) != 1 {
			t.Errorf("%d documents are kept", len(s.latest))
		}
	})
}
