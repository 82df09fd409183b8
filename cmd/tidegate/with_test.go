package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

func TestWith(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nsemaphores: {oven: {limit: 3}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `set -eu
curl --noproxy '*' -sS --fail-with-body --retry 9 "$TIDEGATE_URL/v1/sales/$1"
curl --noproxy '*' -sS --fail-with-body --retry 9 "$TIDEGATE_INTERNAL_URL/v1/semaphores"
echo "$REDIS_URL"`
	out, err := call(t, nothing, "with", "--rules", rules, "sh", "-c", script, "sh", "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"state":"open"`, `"name":"oven","limit":3`, "\nredis://:"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	if _, err := call(t, nothing, "with", "--", "sh", "-c", "exit 7"); statusOf(err) != 7 || err.Error() != "sh: exit status 7" {
		t.Errorf("status %d: %v", statusOf(err), err)
	}
	if _, err := call(t, nothing, "with", "no-such-command"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("no such command: %v", err)
	}
	if _, err := call(t, nothing, "with"); err == nil || err.Error() != "COMMAND is required; usage: tidegate with COMMAND" {
		t.Errorf("no command: %v", err)
	}
}

// told ends a context at the first line of an output.
type told struct {
	output
	end context.CancelCauseFunc
}

func (w *told) Write(p []byte) (int, error) {
	defer w.end(serve.Interrupted{Signal: syscall.SIGTERM})
	return w.output.Write(p)
}

// Ctrl-C ends the command with all that it has started, as go run starts the program.
func TestWithIsToldToStop(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held") // by the grandchild, for as long as it lives
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stdout, stderr := told{end: cancel}, output{}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"with", "sh", "-c", `(exec 3> "$0"; echo started; sleep 60; :) & wait`, held}, nothing, &stdout, &stderr)
	}()
	freed := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(held) // up to its end, which comes with the end of its last holder
		freed <- err
	}()
	select {
	case err := <-freed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the grandchild goes on")
	}
	if err := <-ended; err != nil || stdout.String() != "started\n" {
		t.Errorf("%v: %q\n%s", err, &stdout.output, &stderr)
	}
}

// firstURL keeps what is written, and hands on the URL in it.
type firstURL struct {
	output
	found chan string
}

var anyURL = regexp.MustCompile(`http://[0-9.:]+`)

func (w *firstURL) Write(p []byte) (int, error) {
	if url := anyURL.FindString(string(p)); url != "" {
		w.found <- url
	}
	return w.output.Write(p)
}

// The command at the top of an example's README starts the example on a separate server.
func TestExamplesStart(t *testing.T) {
	t.Chdir("../..")
	for _, name := range []string{"shop", "heavyjob"} {
		readme, err := os.ReadFile("examples/" + name + "/README.md")
		if err != nil {
			t.Fatal(err)
		}
		_, command, _ := strings.Cut(string(readme), "```sh\ngo run ./cmd/tidegate ")
		command, _, ok := strings.Cut(command, "\n")
		if !ok {
			t.Fatalf("%s: no command", name)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stdout, stderr := firstURL{found: make(chan string, 10)}, output{}
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, append(strings.Fields(command), "-listen", "127.0.0.1:0"), nothing, &stdout, &stderr)
		}()
		select {
		case url := <-stdout.found:
			if a := servetest.Call("GET", url, ""); a.Status == 0 {
				t.Errorf("%s does not answer: %v", name, a)
			}
			cancel(serve.Interrupted{Signal: syscall.SIGINT})
			err = <-ended
		case err = <-ended:
		}
		cancel(nil)
		if err != nil || stdout.String() == "" {
			t.Errorf("%s: %v\n%s%s", name, err, &stdout.output, &stderr)
		}
	}
}
