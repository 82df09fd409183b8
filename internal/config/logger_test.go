package config

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// All levels from the chosen one on go to one place, at once, each line with its level, as text or as JSON.
func TestLoggerHasOneStreamForAllLevels(t *testing.T) {
	for format, level := range map[string]string{"text": "level=", "json": `"level":"`} {
		var out bytes.Buffer
		log := (&Config{LogFormat: format, LogLevel: slog.LevelInfo}).Logger(&out)
		for _, call := range []struct {
			say  func(string, ...any)
			want string
		}{{log.Debug, ""}, {log.Info, level + "INFO"}, {log.Warn, level + "WARN"}, {log.Error, level + "ERROR"}} {
			out.Reset()
			call.say("here")
			line := out.String()
			if call.want == "" && line != "" || !strings.Contains(line, call.want) || line != "" && strings.Count(line, "\n") != 1 {
				t.Errorf("%s: %q, want one line with %q", format, line, call.want)
			}
		}
	}
}

// All durations of the log have one unit, which their names show.
func TestDurationsAreLoggedInMilliseconds(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"msg":"x","pause_ms":25000,"of":{"trip_ms":36.79,"zero_ms":0,"took_ms":2.5}}`,
		"text": `msg=x pause_ms=25000 of.trip_ms=36.79 of.zero_ms=0 of.took_ms=2.5`,
	} {
		var out bytes.Buffer
		log := (&Config{LogFormat: format}).Logger(&out)
		log.With("pause", 25*time.Second).Info("x", slog.Group("of",
			slog.Duration("trip", 36790*time.Microsecond+400), slog.Any("zero", time.Duration(0)), slog.Float64("took_ms", 2.5)))
		if !strings.HasSuffix(strings.TrimSpace(out.String()), want) {
			t.Errorf("%s: %s, want %s", format, &out, want)
		}
	}
}
