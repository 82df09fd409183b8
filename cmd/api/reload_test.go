package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// TestEveryReloadedFile: a change of a file that is wrong leaves the content before in force, and an operator sees it in the log, in readyz
// and in the metrics, until it is right again.
func TestEveryReloadedFile(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	jwks := writeFile(t, "jwks.json", "")
	k.write(t, jwks, "1")
	files := map[string]string{
		"RULES_FILE": writeFile(t, "rules.yaml", "version: 1\nrules:\n  - {name: orders, subject: user, limit: 1000, window: 1h}\n"),
		"KOALA_FILE": writeFile(t, "koala_rule.conf", koalaRules), "TOKENS_FILE": writeFile(t, "tokens.yaml", tokensOfAllRoles), "JWT_JWKS_FILE": jwks,
	}
	vars := map[string]string{"IDENTITY": "jwt"}
	for setting, file := range files {
		vars[setting] = file
	}
	p := startWith(t, vars)
	const degraded = `"degraded":["reload"]`
	sees := func(setting, value string, want bool) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			metrics := servetest.Call("GET", p.URL("internal")+"/metrics", "", "Authorization", "Bearer "+operatorToken)
			readyz := servetest.Call("GET", p.URL("public")+"/readyz", "")
			if !strings.Contains(string(metrics.Body), `tidegate_reload_failed{setting="`+setting+`"} `+value+"\n") || strings.Contains(string(readyz.Body), degraded) != want {
				readyz.Status = 0
			}
			return readyz
		})
	}
	for setting, file := range files {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sees(setting, "0", false)
		for name, spoil := range map[string]func() error{
			"wrong":   func() error { return os.WriteFile(file, []byte("{hunter2"), 0o600) },
			"removed": func() error { return os.Remove(file) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			sees(setting, "1", true)
			if a := servetest.Call("GET", p.URL("internal")+"/v1/rules", "", "Authorization", "Bearer "+operatorToken); a.Status != http.StatusOK {
				t.Errorf("with a %s %s: %v", name, setting, a)
			}
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
			sees(setting, "0", false)
		}
		if !strings.Contains(p.Output(), file) {
			t.Errorf("the log does not name %s", file)
		}
	}
	for setting := range map[string]bool{"TOKENS_FILE": true, "JWT_JWKS_FILE": true} {
		if !strings.Contains(p.Output(), `"setting":"`+setting+`"`) {
			t.Errorf("the log does not name %s", setting)
		}
	}
	if strings.Contains(p.Output(), "{hunter2") {
		t.Error("the log quotes a file of secrets")
	}
}
