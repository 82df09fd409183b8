package httpapi

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
)

// TestKoalaAccessLog: with LOG_LEVEL=debug each Koala call logs one line: its id, the request and the response; for several
// requests all of them. Otherwise it logs nothing, because the line contains personal data.
func TestKoalaAccessLog(t *testing.T) {
	var log strings.Builder
	at := func(level slog.Level) func(*Config) {
		return func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})) }
	}
	const (
		browse = koalahttp.Path + "/rule/browse?act=post&uid=666"
		multi  = koalahttp.Path + "/multi/browse?argsJson=%5B%7B%22Id%22%3A%22a%22%2C%22Arg%22%3A%22uid%3D666%22%7D%2C%7B%22Id%22%3A%22b%22%2C%22Arg%22%3A%22uid%3D7%22%7D%5D"
	)
	loud := setup(t, documentedKoala(t, nil), at(slog.LevelDebug)).Internal()
	for path, want := range map[string][]string{
		browse: {"level=DEBUG msg=koala", "route=/koala/rule/browse", "act:post", "uid:666", "status=200", `\"Ret_code\":100`},
		multi:  {"level=DEBUG msg=koala", "route=/koala/multi/browse", "uid=666", "uid=7", `\"ID\":\"a\"`, `\"Ret_code\":100`, `\"ID\":\"b\"`, `\"Ret_code\":0`},
	} {
		log.Reset()
		w := call(loud, "GET", path, "")
		want = append(want, "request_id="+w.Header().Get("X-Request-ID"))
		for _, part := range want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s: no %s in %s", path, part, &log)
			}
		}
		if lines := strings.Count(log.String(), "msg=koala"); lines != 1 || w.Header().Get("X-Request-ID") == "" {
			t.Errorf("%s: %d lines: %s", path, lines, &log)
		}
	}
	log.Reset()
	call(setup(t, documentedKoala(t, nil), at(slog.LevelInfo)).Internal(), "GET", browse, "")
	if strings.Contains(log.String(), "666") {
		t.Errorf("%s", &log)
	}
}
