package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const tokensOfAllRoles = `
- {name: ann, role: operator, token: token-of-an-operator}
- {name: shop, role: admit, token: token-of-a-service}
- {name: hall, role: viewer, token: token-of-a-viewer}
- {name: prometheus, role: metrics, token: token-of-a-scraper}
`

const koalaRules = `[dicts]
[rules]
rule : [leak] [uid=+] [time=3600; count=2; erase1=1] [result=2; return=201]
[result]
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
`

// Every call that the real program lists, by every role. What is new has to be named here before a viewer or a scraper may do it.
func TestRolesOfEveryCall(t *testing.T) {
	p := startWith(t, map[string]string{
		"TOKENS_FILE": writeFile(t, "tokens.yaml", tokensOfAllRoles), "KOALA_FILE": writeFile(t, "koala_rule.conf", koalaRules),
	})
	internal := p.URL("internal")
	var described struct {
		Paths map[string]map[string]any
	}
	servetest.Call("GET", internal+"/openapi.json", "").Into(t, &described)

	open := []string{"/livez", "/readyz", "/openapi.json", "/docs", "/problems/{name}", "/", "/assets/{path}", "/session"}
	viewed := []string{
		"/v1/sales", "/v1/sales/{sale}", "/v1/sales/{sale}/orders", "/v1/sales/{sale}/verify", "/v1/orders/{id}", "/v1/orders/dead", "/v1/order-events",
		"/v1/rules", "/v1/bans", "/v1/bans/history", "/v1/explain", "/v1/semaphores", "/v1/semaphores/{name}", "/v1/login/history", "/v1/audit", "/events",
		"/v1/rooms", "/v1/rooms/{room}", "/v1/rooms/{room}/events", "/v1/rooms/{room}/draw.csv", "/v1/rooms/{room}/places", "/v1/rooms/{room}/verify", "/.well-known/jwks.json", "/.well-known/receipt-keys.json",
		"/vwr/serving_num", "/vwr/waiting_num", "/vwr/public_key", "/vwr/num_active_tokens",
	}
	parameter := regexp.MustCompile(`\{\w+\}`)
	calls := 0
	for path, methods := range described.Paths {
		for method := range methods {
			if slices.Contains(open, path) {
				continue
			}
			calls++
			method = strings.ToUpper(method)
			at := internal + parameter.ReplaceAllString(path, "x")
			status := func(token string) int {
				if path == "/events" && (token == "token-of-a-viewer" || token == "token-of-an-operator") {
					return http.StatusOK // it lasts; see the page's tests
				}
				a := servetest.Call(method, at, "", "X-Tidegate-Token", token)
				if a.Status == http.StatusForbidden && !regexp.MustCompile(`has the role (viewer|metrics), and this call needs ((admit|viewer|metrics) or )*operator\b`).Match(a.Body) {
					t.Errorf("%s %s names no role: %v", method, path, a)
				}
				return a.Status
			}
			may := func(status int) bool { return status != http.StatusUnauthorized && status != http.StatusForbidden }
			if got := status(""); got != http.StatusUnauthorized {
				t.Errorf("%s %s by nobody: %d", method, path, got)
			}
			if got := status("token-of-an-operator"); !may(got) {
				t.Errorf("%s %s by an operator: %d", method, path, got)
			}
			if got, want := status("token-of-a-scraper"), path == "/metrics"; may(got) != want {
				t.Errorf("%s %s by a scraper: %d", method, path, got)
			}
			if got, want := status("token-of-a-viewer"), method == http.MethodGet && slices.Contains(viewed, path); may(got) != want {
				t.Errorf("%s %s by a viewer: %d", method, path, got)
			}
		}
	}
	if calls < 40 {
		t.Errorf("only %d calls are listed", calls)
	}

	// Guesses of tokens are slowed down, and valid tokens still work.
	guess := func() servetest.Answer {
		return servetest.Call("GET", internal+"/v1/rules", "", "X-Tidegate-Token", "token-of-somebody-else")
	}
	statuses := map[int]int{}
	for range 90 {
		statuses[guess().Status]++
	}
	if statuses[http.StatusUnauthorized] < 60 || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("guesses: %v", statuses)
	}
	if a := servetest.Call("GET", internal+"/v1/rules", "", "X-Tidegate-Token", "token-of-a-viewer"); a.Status != http.StatusOK {
		t.Errorf("%v", a)
	}
}

func TestShortTokensStopTheStart(t *testing.T) {
	for _, token := range []string{"0123456789abcde", "", "0123456789 abcdef"} {
		file := writeFile(t, "tokens.yaml", `[{name: ann, role: operator, token: "`+token+`"}]`)
		err := start(t, t.TempDir(), io.Discard, "-tokens-file", file).Refused()
		if err == nil || !strings.Contains(err.Error(), "TOKENS_FILE: ") || !strings.Contains(err.Error(), "token 1 must have 16 to") || token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestPublishedTokens(t *testing.T) {
	file := writeFile(t, "tokens.yaml", "[{name: ann, role: operator, token: demo-only-token-of-ann}]")
	err := start(t, t.TempDir(), io.Discard, "-tokens-file", file).Refused()
	if err == nil || !strings.Contains(err.Error(), "TOKENS_FILE: ") || !strings.Contains(err.Error(), "token 1 is one that Tidegate's repository publishes") {
		t.Fatal(err)
	}
	p := startWith(t, map[string]string{"TOKENS_FILE": file, "ALLOW_DEMO_SECRETS": "true"})
	degraded := func(want bool) {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", p.URL("internal")+"/readyz", "")
			if strings.Contains(string(a.Body), "demo_secrets") != want {
				a.Status = 0
			}
			return a
		})
	}
	degraded(true)
	if err := os.WriteFile(file, []byte("[{name: ann, role: operator, token: a-token-of-her-own}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	degraded(false)
}
