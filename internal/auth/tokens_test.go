package auth

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/auth/authtest"
)

func TestTokenFileErrors(t *testing.T) {
	for name, content := range map[string]string{
		"empty":         "",
		"empty list":    "[]",
		"not a list":    "name: ops",
		"unknown field": "- {name: a, role: admit, token: hunter2hunter2hunter2, colour: red}",
		"unknown role":  "- {name: a, role: hunter2, token: 0123456789abcdef}",
		"no name":       "- {role: admit, token: hunter2hunter2hunter2}",
		"no token":      "- {name: a, role: admit}",
		"short":         "- {name: a, role: admit, token: hunter2hunter2h}",
		"spaces":        "- {name: a, role: admit, token: hunter2 hunter2 hunter2}",
		"same name":     "- {name: a, role: admit, token: hunter2hunter2hunter2}\n- {name: a, role: admit, token: 0123456789abcdef}",
		"same token":    "- {name: a, role: admit, token: hunter2hunter2hunter2}\n- {name: b, role: operator, token: hunter2hunter2hunter2}",
		"secret":        "- {name: a, role: admit, token: hunter2hunter2secret}",
		"no YAML":       "- {name: a, role: admit, token: hunter2",
		"wrong type":    "- {name: a, role: admit, token: [hunter2]}",
	} {
		_, err := LoadTokens(authtest.WriteTokens(t, content), false, slog.Default(), "", "hunter2hunter2secret")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadTokens(filepath.Join(t.TempDir(), "none"), false, slog.Default()); err == nil {
		t.Error("no file was taken")
	}
	for _, secret := range []string{"", "short", "with space in the middle", "with a line break\n"} {
		if _, err := NewTokens(secret, ""); err == nil {
			t.Errorf("%q was taken", secret)
		}
		if _, err := NewTokens("secret-of-an-operator", secret); err == nil && secret != "" {
			t.Errorf("%q was taken", secret)
		}
	}
	if _, err := NewTokens("secret-of-an-operator", "secret-of-an-operator"); err == nil {
		t.Error("one token was taken for two")
	}
	one, err := NewTokens("secret-of-an-operator", "secret-of-a-scraper")
	if err != nil {
		t.Fatal(err)
	}
	for secret, role := range map[string]Role{"secret-of-an-operator": RoleOperator, "secret-of-a-scraper": RoleMetrics, "": "", "other": ""} {
		if found, ok := one.find(secret); found.Role != role || ok != (role != "") {
			t.Errorf("%q: %v %v", secret, found.Role, ok)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestTokensAreReloaded(t *testing.T) {
	file := authtest.WriteTokens(t, authtest.TokenList)
	logged := make(lines, 16)
	tokens, err := LoadTokens(file, false, slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- tokens.Run(ctx) }()
	replace := func(content string) {
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	replace("- {name: a, role: nonsense, token: fresh-token-of-tests}")
	logged.await("last good content")
	if _, ok := tokens.find("operator-token-of-tests"); !ok {
		t.Error("a bad file was put into force")
	}
	replace("- {name: a, role: admit, token: fresh-token-of-tests}")
	logged.await("reloaded")
	if _, ok := tokens.find("operator-token-of-tests"); ok {
		t.Error("the old tokens are still good")
	}
	if found, ok := tokens.find("fresh-token-of-tests"); !ok || found.Role != RoleAdmit {
		t.Errorf("%v %v", found.Role, ok)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// lines is a log that a test can wait on.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lines) await(part string) {
	for line := range l {
		if strings.Contains(line, part) {
			return
		}
	}
}
