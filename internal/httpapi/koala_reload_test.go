package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
)

// TestReloadOfAKoalaFile: after a reload a new Koala rule file is in force, or the response says what is wrong with it and
// nothing changes.
func TestReloadOfAKoalaFile(t *testing.T) {
	folder := t.TempDir()
	h := setup(t, koalaIn(t, folder, nil)).Internal()
	answers := func(want string) {
		t.Helper()
		if w := call(h, "GET", koalahttp.Path+"/rule/browse?act=post&uid=8", ""); !strings.Contains(w.Body.String(), `"Ret_code":`+want+",") {
			t.Errorf("%s, want rule %s", w.Body, want)
		}
	}
	answers("0")
	for _, step := range []struct {
		text   string
		status int
		said   []string
		code   string
	}{
		{strings.Replace(koalaRuleFile, "uid @ blocked", "uid = 8", 1), 200, nil, "100"},
		{strings.Replace(koalaRuleFile, "time=60", "time=0", 1), 422, []string{`"line":6,"column":34`, `koala_rule.conf"`, "a leak rule must have a time of 1 or more", "act=post", ". The rules of Koala stay what they were."}, "100"},
		{koalaRuleFile, 200, nil, "0"},
	} {
		if err := os.WriteFile(filepath.Join(folder, "koala_rule.conf"), []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := call(h, "POST", "/v1/rules/reload", "")
		if w.Code != step.status {
			t.Errorf("%d %s, want %d", w.Code, w.Body, step.status)
		}
		for _, part := range step.said {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("no %s in %s", part, w.Body)
			}
		}
		answers(step.code)
	}
}
