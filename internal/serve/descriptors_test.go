package serve

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestManyConnectionsToThePublicListener leave descriptors, and memory, for probes, metrics, Redis and Postgres, and new callers are served.
func TestManyConnectionsToThePublicListener(t *testing.T) {
	for limit, public := range map[string]int{"ulimit -n 256": 56, "export GOMEMLIMIT=64MiB": 399} {
		t.Run(limit, func(t *testing.T) { testManyConnections(t, limit, public) })
	}
}

func testManyConnections(t *testing.T, limit string, public int) {
	t.Parallel()
	limited := filepath.Join(t.TempDir(), "api")
	script := "#!/bin/sh\n" + limit + "\nexec " + filepath.Join(testenv.Programs(t), "api") + "\n"
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	env := environment(testenv.Redis(t), databases.Postgres(t))
	var vars []string
	for _, name := range []string{"REDIS_URL", "DATABASE_URL", "MIGRATE", "NAMESPACE", "IDENTITY", "SECRET", "LISTEN", "INTERNAL_LISTEN"} {
		vars = append(vars, name+"="+env(name))
	}
	startWorker(t, env)
	s := openShop(t, servetest.Exec(t, limited, vars...), 100)
	for i := range public + 350 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr("public"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if i%2 > 0 { // one that stays open after its answer
			if _, err := c.Write([]byte("GET /v1/sales/concert HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/", "/metrics"} {
		if a := servetest.Once("GET", s.URL("internal")+path, ""); a.Status != http.StatusOK {
			t.Errorf("%s: %v", path, a)
		}
	}
	s.sells(20, "buyer-") // once some have been idle for a second
	metrics := servetest.Call("GET", s.URL("internal")+"/metrics", "").Body
	for _, name := range []string{`http_connections_refused_total{cause="full",listener="public"}`, `http_connections_reclaimed_total{listener="public"}`} {
		if !regexp.MustCompile(`(?m)^tidegate_` + regexp.QuoteMeta(name) + ` [1-9]`).Match(metrics) {
			t.Errorf("no %s", name)
		}
	}
	if !bytes.Contains(metrics, []byte("\ntidegate_http_accept_errors_total{listener=\"public\"} 0\n")) {
		t.Error("there was no descriptor for a connection")
	}
	log := s.Output()
	if warned := strings.Contains(log, `"level":"WARN","msg":"the limit of open files is low`) && strings.Contains(log, `"limit":256`); warned != (public == 56) {
		t.Errorf("a warning about the limit of open files: %v\n%s", warned, log)
	}
	if !strings.Contains(log, fmt.Sprintf(`"msg":"connections of clients","public":%d,`, public)) {
		t.Errorf("want %d connections:\n%s", public, log)
	}
}
