package serve

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// TestDemoSecrets: with the secrets of the committed .env no program starts by default. If they are allowed, the programs
// report it wherever an operator looks.
func TestDemoSecrets(t *testing.T) {
	t.Parallel()
	demo := dotenv(t)
	vars := environment(testenv.Redis(t), withPassword(t, databases.Postgres(t), "", demo["POSTGRES_PASSWORD"]))
	allowed := ""
	env := func(name string) string {
		switch name {
		case "SECRET", "INTERNAL_TOKEN", "METRICS_TOKEN":
			return demo[name]
		case "ALLOW_DEMO_SECRETS":
			return allowed
		}
		return vars(name)
	}
	for name, p := range map[string]*servetest.Program{"SECRET must not contain a secret": startAPI(t, env), "DATABASE_URL must not contain a secret": startWorker(t, env)} {
		if err := p.Refused(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "demo-only") {
			t.Fatalf("%v, want %s", err, name)
		}
	}

	allowed = demo["ALLOW_DEMO_SECRETS"]
	api, worker := startAPI(t, env), startWorker(t, env)
	const said = `"degraded":["demo_secrets"]`
	for _, readyz := range []string{api.URL("public") + "/readyz", api.URL("internal") + "/readyz", worker.URL("worker") + "/readyz"} {
		a := servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", readyz, "") })
		if !strings.Contains(string(a.Body), said) {
			t.Errorf("%s: %v", readyz, a)
		}
	}
	for _, p := range []*servetest.Program{api, worker} {
		p.Logged("these secrets are published in Tidegate's repository; set your own before others can reach this process")
		if strings.Contains(p.Output(), "demo-only") {
			t.Error("a secret is in the log")
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL("internal")+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tidegate-Token", demo["INTERNAL_TOKEN"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	shown := false
	for lines := bufio.NewScanner(resp.Body); !shown && lines.Scan(); {
		shown = strings.Contains(lines.Text(), "these secrets are published: SECRET, INTERNAL_TOKEN, METRICS_TOKEN, DATABASE_URL")
	}
	if !shown {
		t.Error("the page does not show it")
	}
}
