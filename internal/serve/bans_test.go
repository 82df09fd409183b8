package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// recorder appends its arguments to a file, one line per run, without the length of a ban.
const recorder = `#!/bin/sh
case $2 in
ban) echo "ban $3 $5" ;;
*) echo "$2 $3" ;;
esac >>"$1"
`

// ruled writes a rules file with a ban script, and returns the file that the script writes.
func ruled(t *testing.T, run bool) (rules, log string) {
	t.Helper()
	dir := t.TempDir()
	program, log := filepath.Join(dir, "program"), filepath.Join(dir, "log")
	if err := os.WriteFile(program, []byte(recorder), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	rules = filepath.Join(dir, "rules.yaml")
	writeRules(t, rules, program, log, run)
	return rules, log
}

func writeRules(t *testing.T, rules, program, log string, run bool) {
	t.Helper()
	content := "version: 1\nrules: [{name: calls, subject: ip, limit: 1, window: 1h, on_exceed: {action: ban, for: 1h}}]\n"
	if run {
		content += fmt.Sprintf("bans: {run: [%q, %q]}\n", program, log)
	}
	if err := os.WriteFile(rules, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitLine waits until the script was run with these arguments.
func awaitLine(t *testing.T, log, line string) {
	t.Helper()
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		content, err := os.ReadFile(log)
		if strings.Contains(string(content), line+"\n") {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{Body: content, Err: err}
	})
}

// TestBansReachTheFirewall: two APIs and two workers with real servers; the script runs for bans by rules and by operators, and
// for their ends.
func TestBansReachTheFirewall(t *testing.T) {
	t.Parallel()
	rules, log := ruled(t, true)
	env := with(with(environment(testenv.Redis(t), databases.Postgres(t)), "RULES_FILE", rules), "TRUSTED_PROXIES", "192.0.2.0/24")
	api, other := startAPI(t, env), startAPI(t, env)
	workers := []*servetest.Program{startWorker(t, env), startWorker(t, env)}
	for _, p := range []*servetest.Program{api, other} {
		servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	}
	for range 2 {
		if a := servetest.Call("POST", api.URL("internal")+"/v1/admit", `{"subject":{"ip":"203.0.113.7"}}`); a.Status != http.StatusOK {
			t.Fatal(a)
		}
	}
	awaitLine(t, log, "ban 203.0.113.7 rule")
	bans := other.URL("internal") + "/v1/bans/"
	if a := servetest.Call("PUT", bans+"network/203.0.113.0%2F24", `{"for_ms":60000,"reason":"$(reboot)"}`); a.Status >= 300 {
		t.Fatal(a)
	}
	awaitLine(t, log, "ban 203.0.113.0/24 operator")
	if a := servetest.Call("DELETE", bans+"ip/203.0.113.7", ""); a.Status >= 300 {
		t.Fatal(a)
	}
	awaitLine(t, log, "unban 203.0.113.7")
	if a := servetest.Call("PUT", bans+"ip/192.0.2.9", `{"for_ms":60000}`); a.Status >= 300 {
		t.Fatal(a)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // by either process
		for _, w := range workers {
			if a := servetest.Call("GET", w.URL("worker")+"/metrics", ""); strings.Contains(string(a.Body), `tidegate_ban_script_runs_total{action="ban",result="refused"} 1`) {
				return a
			}
		}
		return servetest.Answer{}
	})
	for _, w := range workers {
		a := servetest.Call("GET", w.URL("worker")+"/metrics", "")
		for _, want := range []string{"\ntidegate_ban_script_breaker_open 0\n", "\ntidegate_ban_script_executable 1\n", `tidegate_ban_script_runs_total{action="ban",result="ok"}`} {
			if !strings.Contains(string(a.Body), want) {
				t.Errorf("no %q in %v", want, a)
			}
		}
	}
}

// TestAProgramIsNamedLater: a script that is added to the rules file later also gets the earlier bans.
func TestAProgramIsNamedLater(t *testing.T) {
	t.Parallel()
	rules, log := ruled(t, false)
	env := with(environment(testenv.Redis(t), databases.Postgres(t)), "RULES_FILE", rules)
	api := startAPI(t, env)
	startWorker(t, env).Addr("worker")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })
	if a := servetest.Call("PUT", api.URL("internal")+"/v1/bans/ip/203.0.113.7", `{"for_ms":60000}`); a.Status >= 300 {
		t.Fatal(a)
	}
	writeRules(t, rules, filepath.Join(filepath.Dir(rules), "program"), log, true)
	awaitLine(t, log, "ban 203.0.113.7 operator")
}
