// Package loglimit bounds how fast a log grows: a fault that makes every call fail must not fill the disk with its messages.
package loglimit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	passed   = 10 // records of one message in a window
	window   = 10 * time.Second
	valueMax = 4096  // bytes of a value; the stack of a panic is longer, and its beginning is enough
	known    = 1_000 // messages; more share one limit
)

// New returns a handler that passes warnings and errors to next, of each message at most 10 records in 10 s. The first record
// that passes afterwards has the attribute suppressed: how many records of this message did not. Records below a warning always
// pass, and those whose context comes from Keep. Only the constant text of a record's message counts: put what varies into
// attributes.
func New(next slog.Handler) slog.Handler {
	return handler{next, &limits{of: make(map[message]*limit)}}
}

type kept struct{}

// Keep returns a context whose records are never suppressed, because they are the only trace of an event.
func Keep(ctx context.Context) context.Context { return context.WithValue(ctx, kept{}, true) }

type handler struct {
	slog.Handler
	limits *limits
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || ctx.Value(kept{}) != nil {
		return h.Handler.Handle(ctx, r)
	}
	suppressed, ok := h.limits.take(message{r.Level, r.Message}, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.limits}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.limits}
}

type message struct {
	level slog.Level
	text  string
}

// limits is shared by all handlers that come from one.
type limits struct {
	mu sync.Mutex
	of map[message]*limit // guarded by mu
}

type limit struct {
	until      time.Time // end of the window
	passed     int       // in the window
	suppressed int       // since the last record that passed
}

// take reports whether a record passes, and how many of its message were suppressed before.
func (l *limits) take(m message, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[m]
	if of == nil {
		if len(l.of) >= known {
			m.text = ""
		}
		if of = l.of[m]; of == nil {
			of = new(limit)
			l.of[m] = of
		}
	}
	if !now.Before(of.until) {
		of.until, of.passed = now.Add(window), 0
	}
	if of.passed >= passed {
		of.suppressed++
		return 0, false
	}
	of.passed++
	suppressed, of.suppressed = of.suppressed, 0
	return suppressed, true
}

// Cut shortens long texts: messages, strings, errors and whatever else is formatted as text. It is for slog.HandlerOptions.ReplaceAttr.
func Cut(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString, slog.KindAny:
	default:
		return a
	}
	text := a.Value.String() // of any other type: its error or its fmt.Sprint
	if len(text) <= valueMax {
		return a
	}
	cut := valueMax
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return slog.String(a.Key, fmt.Sprintf("%s… (%d bytes)", text[:cut], len(text)))
}
