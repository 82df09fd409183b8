package config

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
