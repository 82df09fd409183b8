package httpapi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/dialects/koala/koalahttp"
)

const koalaRuleFile = `
[dicts]
blocked : blocked.dat
[rules]
rule : [direct] [uid @ blocked] [] [result=2; return=100]
rule : [leak] [act=post; uid=+] [time=60; count=3; erase1=1] [result=2; return=201]
[result]
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
`

// documentedKoala sets up Koala's endpoints; alive is the result of the store's health check.
func documentedKoala(t *testing.T, alive error) func(*Config) {
	t.Helper()
	return koalaIn(t, t.TempDir(), alive)
}

// koalaIn is documentedKoala with its files in a folder.
func koalaIn(t *testing.T, folder string, alive error) func(*Config) {
	t.Helper()
	for name, text := range map[string]string{"koala_rule.conf": koalaRuleFile, "blocked.dat": "666\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	service, err := koala.New(memorystore.New(memorystore.Options{}), koala.Options{
		Path: filepath.Join(folder, "koala_rule.conf"), Secret: make([]byte, 32), Alive: func(context.Context) error { return alive },
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Koala = service }
}

// TestKoalaAnswersMatchTheDocument: responses of Koala's endpoints have the documented schema.
func TestKoalaAnswersMatchTheDocument(t *testing.T) {
	h := setup(t, documentedKoala(t, nil)).Internal()
	away := setup(t, documentedKoala(t, errors.New("away"))).Internal()
	const known, refused = "act=post&uid=7", "act=post&uid=666"
	for _, tt := range []struct {
		path, query string
		status      int
	}{
		{"/rule/browse", known, 200},
		{"/rule/browse", refused + "&_writeThrough=yes", 200},
		{"/rule/browse", known + "&_writeThrough=true", 400},
		{"/rule/browse_complete", known, 200},
		{"/rule/browse_complete", refused, 200},
		{"/rule/update", known, 200},
		{"/rule/feedback", known + "&_feedbackType=erase2", 200},
		{"/rule/feedback", known + "&_feedbackType=erase3", 400},
		{"/rule/value", known + "&rule_no=201", 200},
		{"/rule/value", known + "&rule_no=202", 400},
		{"/multi/browse", "argsJson=%5B%7B%22Id%22%3A%221%22%2C%22Arg%22%3A%22act%3Dpost%22%7D%5D", 200},
		{"/multi/browse", "argsJson=1", 400},
		{"/dump/counter", "", 200},
		{"/dump/counter", "rule_no=201", 200},
		{"/dump/policy", "", 200},
		{"/monitor/alive", "", 200},
	} {
		answers(t, h, "GET", koalahttp.Path+tt.path+"?"+tt.query, "", tt.status)
	}
	answers(t, away, "GET", koalahttp.Path+"/monitor/alive", "", 500)
}
