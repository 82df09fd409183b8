package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve"
)

// Without a terminal an editor that waits for keys would wait for ever.
func TestSalesEditWithoutATerminal(t *testing.T) {
	env, _ := internalFake(t, nil)
	if _, err := call(t, env, "sales", "edit", "summer"); err == nil || !strings.Contains(err.Error(), "EDITOR must name a program") {
		t.Error(err)
	}
}

// An operator changes a sale in an editor, which here is a script: what would change is shown, what the operator leaves stays as it is, and
// whenever the sale is not changed, the edited text is kept.
func TestSalesEdit(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	script := filepath.Join(t.TempDir(), "editor")
	err := withEmbedded(t.Context(), t.TempDir(), nil, io.Discard, func(_ context.Context, place embedded.Place) error {
		env := func(name string) string {
			return map[string]string{"TIDEGATE_INTERNAL_URL": place.Internal, "EDITOR": "sh " + script}[name]
		}
		edit := func(ctx context.Context, commands string, args ...string) (stdout, stderr string, err error) {
			t.Helper()
			if err := os.WriteFile(script, []byte("set -e\n"+commands), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs output
			err = run(ctx, append([]string{"sales", "edit", "summer"}, args...), env, &out, &errs)
			return out.String(), errs.String(), err
		}
		// kept returns the only text that is kept, and removes it.
		kept := func() string {
			t.Helper()
			files, err := filepath.Glob(filepath.Join(temp, "tidegate-sale-*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, want one file: %v", files, err)
			}
			text, err := os.ReadFile(files[0])
			if err != nil || os.Remove(files[0]) != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		nothingKept := func() {
			t.Helper()
			if files, _ := filepath.Glob(filepath.Join(temp, "tidegate-sale-*")); len(files) > 0 {
				t.Errorf("%v is left", files)
			}
		}
		shows := func(want string) {
			t.Helper()
			if out, err := call(t, env, "sales", "show", "summer", "--json"); err != nil || !strings.Contains(out, want) {
				t.Errorf("%v: %q is not in %s", err, want, out)
			}
		}
		if _, err := call(t, env, "sales", "create", "summer", "--item", "ticket=500:2", "--item", "poster=9", "--lasts", "1h", "--anonymous", "--hold", "90s"); err != nil {
			return err
		}

		out, changes, err := edit(t.Context(), `grep -q "^hold_ms: 90000" "$1"; sed -i "s/stock: 500/stock: 600/; s/hold_ms: 90000/hold_ms: 60000/" "$1"`, "--yes")
		if err != nil || !strings.Contains(out, "hold           1m0s") || !strings.Contains(changes, "\n-hold_ms: 90000\n+hold_ms: 60000\n") ||
			!strings.Contains(changes, "\n-  stock: 500\n+  stock: 600\n") || strings.Contains(changes, "poster=") {
			t.Errorf("%v\n%s\n%s", err, out, changes)
		}
		shows(`"requires_user":false,"hold_ms":60000,"items":[{"item":"ticket","stock":600,"free":600,"quota_per_buyer":2,`)
		nothingKept()

		out, _, err = edit(t.Context(), `grep -q '"hold_ms": 60000,' "$1"; sed -i 's/"hold_ms": 60000/"hold_ms": 70000/' "$1"`, "--yes", "--json")
		if err != nil || !strings.HasPrefix(out, `{"sale":"summer",`) || !strings.Contains(out, `"hold_ms":70000`) {
			t.Errorf("%v\n%s", err, out)
		}
		for _, commands := range []string{`true`, `echo "# a comment" >>"$1"`} {
			if out, errs, err := edit(t.Context(), commands); err != nil || out != "" || errs != "nothing was changed\n" {
				t.Errorf("%s: %v\n%s\n%s", commands, err, out, errs)
			}
			nothingKept()
		}

		for commands, want := range map[string]string{
			`sed -i "s/hold_ms: 70000/hold_ms: 1/" "$1"`:          "Change sale summer? stdin is not a terminal; pass --yes to confirm", // without --yes
			`sed -i "s/hold_ms: 70000/hold_ms: -1/" "$1" # --yes`: "body.hold_ms: expected number >= 0",
			`sed -i "s/stock: 600/stock: 1/" "$1" # --yes`:        "409",
			`sed -i "s/hold_ms: 70000/hold_ms: [/" "$1" # --yes`:  "hold_ms: [",
			`: >"$1" # --yes`: "the text is empty",
			`sed -i "s/hold_ms: 70000/hold_ms: 1/" "$1"; exit 3 # --y`: "the editor sh " + script + ": exit status 3; VISUAL or EDITOR sets another one",
			`sed -i "s/hold_ms: 70000/hold_ms: 1/" "$1"
			curl -sf -X PUT -H "Content-Type: application/json" -d '{"starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z","hold_ms":70000,"requires_user":false,
			"items":[{"item":"ticket","stock":600,"quota_per_buyer":2},{"item":"poster","stock":9}]}' ` + place.Internal + `/v1/sales/summer >/dev/null # --yes`: "409 The change contradicts the present state: sale summer was changed meanwhile",
		} {
			var args []string
			if strings.HasSuffix(commands, "# --yes") {
				args = []string{"--yes"}
			}
			_, _, err := edit(t.Context(), commands, args...)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "\nthe edited text is in "+temp) {
				t.Errorf("%s: %v", commands, err)
			}
			if text := kept(); strings.Contains(text, "hold_ms: 70000") && strings.Contains(text, "stock: 600") {
				t.Errorf("%s: not the edited text is kept:\n%s", commands, text)
			}
		}
		shows(`"hold_ms":70000`)
		shows(`"stock":600`)

		// Terminals send Ctrl-C to the editor and to this program, which stays.
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		signals, seen := make(chan os.Signal, 1), filepath.Join(t.TempDir(), "seen")
		signal.Notify(signals, syscall.SIGINT)
		defer signal.Stop(signals)
		go func() {
			<-signals
			cancel(serve.Interrupted{Signal: syscall.SIGINT})
			_ = os.WriteFile(seen, nil, 0o600)
		}()
		if _, _, err := edit(ctx, `kill -INT $PPID; until [ -e "`+seen+`" ]; do sleep 0.01; done; sed -i "s/hold_ms: 70000/hold_ms: 80000/" "$1"`, "--yes"); err != nil {
			t.Errorf("Ctrl-C in the editor: %v", err)
		}
		shows(`"hold_ms":80000`)

		if _, err := call(t, env, "sales", "edit", "sumer"); err == nil || !strings.Contains(err.Error(), `sale "sumer" does not exist; existing: demo, summer`) {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
