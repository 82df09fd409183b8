package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// The embedded server runs the program of bans.run itself.
func TestEmbeddedServerTellsTheFirewall(t *testing.T) {
	dir := t.TempDir()
	program, log, rules := filepath.Join(dir, "program"), filepath.Join(dir, "log"), filepath.Join(dir, "rules.yaml")
	for path, content := range map[string]string{
		program: "#!/bin/sh\necho \"$2 $3 $5\" >>\"$1\"\n",
		rules: "version: 1\nrules: [{name: calls, subject: ip, limit: 1, window: 1h, on_exceed: {action: ban, for: 1h}}]\n" +
			fmt.Sprintf("bans: {run: [%q, %q]}\n", program, log),
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil { //nolint:gosec // it is to be run
			t.Fatal(err)
		}
	}
	p := start(t, filepath.Join(dir, "data"), io.Discard, "-rules-file", rules)
	for range 2 {
		if a := servetest.Call("POST", p.URL("internal")+"/v1/admit", `{"subject":{"ip":"203.0.113.7"}}`); a.Status != http.StatusOK {
			t.Fatal(a)
		}
	}
	written := func(line string) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			content, err := os.ReadFile(log)
			if strings.Contains(string(content), line) {
				return servetest.Answer{Status: http.StatusOK}
			}
			return servetest.Answer{Body: content, Err: err}
		})
	}
	written("ban 203.0.113.7 rule\n")
	if a := servetest.Call("DELETE", p.URL("internal")+"/v1/bans/ip/203.0.113.7", ""); a.Status >= 300 {
		t.Fatal(a)
	}
	written("unban 203.0.113.7 \n")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { // the program writes before it ends
		a := servetest.Call("GET", p.URL("internal")+"/metrics", "")
		if !regexp.MustCompile(`tidegate_ban_script_runs_total\{action="unban",result="ok"\} [1-9]`).Match(a.Body) { // what is told may be told again
			a.Status = 0
		}
		return a
	})
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
