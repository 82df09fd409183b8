// Package asynqlog writes the log of Asynq through slog.
package asynqlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	window = 10 * time.Second // that of package loglimit
	known  = 100              // different texts of a window; more are not remembered
)

// A Logger is an asynq.Logger that logs through slog. It logs the same warning or error once in ten seconds, because Asynq repeats what
// fails, several times a second, in each of its loops. The zero value is not usable; use New. Safe for concurrent use.
type Logger struct {
	log *slog.Logger

	mu    sync.Mutex
	until time.Time           // end of the window; guarded by mu
	texts map[string]struct{} // logged in the window; guarded by mu
}

// New returns a logger that writes to log.
func New(log *slog.Logger) *Logger { return &Logger{log: log} }

// The methods of asynq.Logger. Asynq would end the process after Fatal; that decision belongs to the program.
func (l *Logger) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l *Logger) Info(args ...any)  { l.write(slog.LevelInfo, args) }
func (l *Logger) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l *Logger) Error(args ...any) { l.write(slog.LevelError, args) }
func (l *Logger) Fatal(args ...any) { l.write(slog.LevelError, args) }

// write puts the text into an attribute, because the texts of Asynq vary, and package loglimit limits messages that do not.
func (l *Logger) write(level slog.Level, args []any) {
	text := fmt.Sprint(args...)
	if level < slog.LevelWarn || l.isNew(text) {
		l.log.Log(context.Background(), level, "asynq", slog.String("text", text))
	}
}

func (l *Logger) isNew(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.until) {
		l.until, l.texts = now.Add(window), make(map[string]struct{})
	}
	_, repeated := l.texts[text]
	if len(l.texts) < known {
		l.texts[text] = struct{}{}
	}
	return !repeated
}
