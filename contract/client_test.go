package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

const (
	token = "a-token-of-the-contract"
	rules = `version: 1
rules:
  - {name: all, subject: ip, limit: 100000, window: 1m}
  - {name: puzzles, match: {route: /guarded}, subject: ip, limit: 1, window: 1h, on_exceed: challenge}
semaphores:
  printer: {limit: 2}
`
	koala = `[dicts]
[rules]
rule : [count] [act=ask; uid=+] [time=3600; count=4] [result=2; return=201]
rule : [leak] [act=post; uid=+] [time=3600; count=4; erase1=1; erase2=2] [result=2; return=202]
[result]
1 : {"Ret_type":1, "Str_reason":"Allow"}
2 : {"Ret_type":2, "Err_no":10, "Str_reason":"Deny"}
`
)

// TestGeneratedClient: ogen makes a client for each listener from its document. testdata/life calls every operation with them, and the client
// fails at every answer that the document does not have.
func TestGeneratedClient(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": rules, "koala.conf": koala} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vars := map[string]string{
		"RULES_FILE": filepath.Join(dir, "rules.yaml"), "KOALA_FILE": filepath.Join(dir, "koala.conf"), "INTERNAL_TOKEN": token,
		"TIDEGATE_DATA": filepath.Join(dir, "data"), "LISTEN": "127.0.0.1:0", "INTERNAL_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json",
	}
	api := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API(nil, func(name string) string { return vars[name] }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(embedded.Place) {})
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })

	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// The packages exist in this overlay only: they are large, and made of the documents of this program.
	overlay := map[string]string{filepath.Join(here, "life", "main.go"): filepath.Join(here, "testdata", "life", "main.go")}
	for _, listener := range []string{"public", "internal"} {
		generated := filepath.Join(dir, listener)
		document := filepath.Join(dir, listener+".json")
		if err := os.WriteFile(document, generable(t, servetest.Call("GET", api.URL(listener)+"/openapi.json", "").Body), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "go", "tool", "ogen", "--config", "testdata/ogen.yml", "--package", listener, "--target", generated, document)
		files, err := filepath.Glob(filepath.Join(generated, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%v: %v", files, err)
		}
		for _, file := range files {
			overlay[filepath.Join(here, listener+"client", filepath.Base(file))] = file
		}
	}
	text, _ := json.Marshal(map[string]any{"Replace": overlay}) // of strings: cannot fail
	replaced := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replaced, text, 0o600); err != nil {
		t.Fatal(err)
	}
	life := filepath.Join(dir, "life")
	run(t, "go", "build", "-trimpath", "-overlay", replaced, "-o", life, "./life")
	t.Log(run(t, life, api.URL("public"), api.URL("internal"), token))
}

// generable returns a document without what ogen cannot do, or only at great length. It has no name of its own for Koala's ID and Id, which differ
// only in case. And for each header field of each answer it writes code: two that every answer has, and that are checked in the tests of
// internal/httpapi, would make up half of a client.
func generable(t *testing.T, text []byte) []byte {
	t.Helper()
	text = bytes.Replace(text, []byte(`"KoalaJobResult":{`), []byte(`"KoalaJobResult":{"x-ogen-properties":{"Id":{"name":"Same"}},`), 1)
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	leaveOut(document)
	text, _ = json.Marshal(document) // it was JSON
	return text
}

// leaveOut removes these fields from all answers.
func leaveOut(v any) {
	switch v := v.(type) {
	case map[string]any:
		if fields, ok := v["headers"].(map[string]any); ok {
			delete(fields, "Cache-Control")
			delete(fields, "X-Request-Id")
		}
		for _, member := range v {
			leaveOut(member)
		}
	case []any:
		for _, element := range v {
			leaveOut(element)
		}
	}
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out[max(0, len(out)-20_000):])
	}
	return string(out)
}
