package metrics

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/recent"
)

func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			asked int
			err   error
			takes time.Duration
		)
		r := recent.New(askWithin, func(context.Context) (int, error) {
			asked++
			time.Sleep(takes) // some clients know no context
			return asked, err
		})
		wants := func(step string, value int, known bool, waited time.Duration) {
			t.Helper()
			began := time.Now()
			got, is := found(r)
			if is != known || known && got != value || time.Since(began) != waited {
				t.Errorf("%s: %d, %v after %v; want %d, %v after %v", step, got, is, time.Since(began), value, known, waited)
			}
		}
		if _, known := latest(r); known {
			t.Error("known before it was read")
		}
		synctest.Wait()
		if n, known := latest(r); n != 1 || !known {
			t.Errorf("%d, %v", n, known)
		}
		wants("fresh", 1, true, 0)
		time.Sleep(askAgain)
		takes = time.Second
		if n, known := latest(r); n != 1 || !known { // and has it read
			t.Errorf("%d, %v", n, known)
		}
		wants("under way", 2, true, time.Second)
		time.Sleep(askAgain)
		takes, err = 20*time.Second, errors.New("away")
		wants("nobody answers", 0, false, askWithin)
		wants("nobody answers, and one asks", 0, false, askWithin)
		time.Sleep(takes - 2*askWithin)
		synctest.Wait()
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
		wants("an error is remembered", 0, false, 0)
		time.Sleep(askAgain)
		takes, err = 0, nil
		wants("back", 4, true, 0)
		time.Sleep(stale + 1)
		takes = time.Minute
		if _, known := latest(r); known {
			t.Error("known although it is old")
		}
		time.Sleep(takes)
	})
}
