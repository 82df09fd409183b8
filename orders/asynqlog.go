package orders

import (
	"fmt"
	"log/slog"
)

// An AsynqLogger is an asynq.Logger that logs through slog.
type AsynqLogger struct{ *slog.Logger }

func (l AsynqLogger) Debug(args ...any) { l.Logger.Debug("asynq: " + fmt.Sprint(args...)) }
func (l AsynqLogger) Info(args ...any)  { l.Logger.Info("asynq: " + fmt.Sprint(args...)) }
func (l AsynqLogger) Warn(args ...any)  { l.Logger.Warn("asynq: " + fmt.Sprint(args...)) }
func (l AsynqLogger) Error(args ...any) { l.Logger.Error("asynq: " + fmt.Sprint(args...)) }

// Fatal logs an error. Asynq would end the process here; that decision belongs to the program.
func (l AsynqLogger) Fatal(args ...any) { l.Error(args...) }
