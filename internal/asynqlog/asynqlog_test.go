package asynqlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestARepeatedErrorIsLoggedOnceInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&out, nil)))
		for _, step := range []struct {
			after time.Duration
			text  string
			want  int
		}{
			{0, "Dequeue error: NOPERM", 1},
			{9 * time.Second, "Dequeue error: NOPERM", 0},
			{0, "cannot subscribe", 1},
			{time.Second, "Dequeue error: NOPERM", 1},
		} {
			time.Sleep(step.after)
			out.Reset()
			for range 20 {
				l.Error(step.text)
			}
			if n := strings.Count(out.String(), "level=ERROR msg=asynq text=\""+step.text); n != step.want {
				t.Errorf("%v later %q was logged %d times, want %d:\n%s", step.after, step.text, n, step.want, &out)
			}
		}
	})
}
