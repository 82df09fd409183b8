package loglimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/loglimit"
)

type log struct {
	t   *testing.T
	h   slog.Handler
	out *bytes.Buffer
	now time.Time
}

func newLog(t *testing.T) *log {
	l := &log{t: t, out: new(bytes.Buffer), now: time.Now()}
	l.h = loglimit.New(slog.NewTextHandler(l.out, &slog.HandlerOptions{ReplaceAttr: loglimit.Cut}))
	return l
}

// lines logs n records, and returns the lines that were written.
func (l *log) lines(ctx context.Context, n int, level slog.Level, text string, attrs ...slog.Attr) []string {
	l.t.Helper()
	l.out.Reset()
	for range n {
		r := slog.NewRecord(l.now, level, text, 0)
		r.AddAttrs(attrs...)
		if err := l.h.Handle(ctx, r); err != nil {
			l.t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSuffix(l.out.String(), "\n"), "\n")
}

func TestAMessageHasARate(t *testing.T) {
	l := newLog(t)
	other := *l
	other.h = l.h.WithAttrs([]slog.Attr{slog.String("part", "other")}).WithGroup("g")
	for _, step := range []struct {
		after      time.Duration
		log        *log
		ctx        context.Context
		level      slog.Level
		n, want    int
		suppressed int // in the first line
	}{
		{0, l, t.Context(), slog.LevelWarn, 1000, 10, 0},
		{0, l, t.Context(), slog.LevelError, 12, 10, 0}, // another level is another message
		{0, l, t.Context(), slog.LevelInfo, 100, 100, 0},
		{0, l, loglimit.Keep(t.Context()), slog.LevelWarn, 100, 100, 0},
		{9 * time.Second, &other, t.Context(), slog.LevelWarn, 5, 0, 0}, // the handlers share the limit
		{time.Second, &other, t.Context(), slog.LevelWarn, 2, 2, 995},
		{9 * time.Second, l, t.Context(), slog.LevelWarn, 9, 8, 0},
		{time.Hour, l, t.Context(), slog.LevelWarn, 1, 1, 1},
		{time.Hour, l, t.Context(), slog.LevelError, 1, 1, 2},
	} {
		l.now = l.now.Add(step.after)
		step.log.now = l.now
		lines := step.log.lines(step.ctx, step.n, step.level, "a server does not answer")
		got := len(lines)
		if lines[0] == "" {
			got = 0
		}
		if got != step.want {
			t.Errorf("%v: %d lines of %d, want %d", step, got, step.n, step.want)
		}
		for i, line := range lines {
			want := ""
			if i == 0 && step.suppressed > 0 {
				want = fmt.Sprintf("suppressed=%d", step.suppressed)
			}
			if want == "" && strings.Contains(line, "suppressed") || !strings.Contains(line, want) {
				t.Errorf("%v: %q, want %q", step, line, want)
			}
		}
	}
}

// Messages with varying text share a limit when there are too many of them, and use bounded memory.
func TestVaryingMessages(t *testing.T) {
	l := newLog(t)
	n := 0
	for i := range 5000 {
		if l.lines(t.Context(), 1, slog.LevelWarn, fmt.Sprint("order ", i))[0] != "" {
			n++
		}
	}
	if n != 1010 {
		t.Errorf("%d lines, want 1,010", n)
	}
}

func TestLongValuesAreCut(t *testing.T) {
	l := newLog(t)
	long := strings.Repeat("ä", 20_000)
	for name, a := range map[string]slog.Attr{
		"string": slog.String("v", long),
		"error":  slog.Any("v", errors.New(long)),
		"list":   slog.Any("v", []string{long, "x"}),
		"group":  slog.Group("g", slog.String("v", long)),
	} {
		line := l.lines(t.Context(), 1, slog.LevelInfo, "here", a)[0]
		if len(line) > 4300 || !strings.Contains(line, "ä… (400") || strings.Contains(line, `\x`) {
			t.Errorf("%s: %d bytes, ending %q", name, len(line), line[max(0, len(line)-40):])
		}
	}
	if line := l.lines(t.Context(), 1, slog.LevelInfo, long)[0]; len(line) > 4300 {
		t.Errorf("a message has %d bytes", len(line))
	}
	if line := l.lines(t.Context(), 1, slog.LevelInfo, "here", slog.Any("v", []string{"a", "b"}), slog.Int("n", 1))[0]; !strings.HasSuffix(line, `level=INFO msg=here v="[a b]" n=1`) {
		t.Errorf("a short line changed: %s", line)
	}
}
