// Package asynqlog writes the log of Asynq through slog.
package asynqlog

import (
	"fmt"
	"log/slog"
)

// A Logger is an asynq.Logger that logs through slog.
type Logger struct{ *slog.Logger }

func (l Logger) Debug(args ...any) { l.Logger.Debug("asynq", text(args)) }
func (l Logger) Info(args ...any)  { l.Logger.Info("asynq", text(args)) }
func (l Logger) Warn(args ...any)  { l.Logger.Warn("asynq", text(args)) }
func (l Logger) Error(args ...any) { l.Logger.Error("asynq", text(args)) }

// text is an attribute, because the texts of Asynq vary, and package loglimit limits messages that do not.
func text(args []any) slog.Attr { return slog.String("text", fmt.Sprint(args...)) }

// Fatal logs an error. Asynq would end the process here; that decision belongs to the program.
func (l Logger) Fatal(args ...any) { l.Error(args...) }
