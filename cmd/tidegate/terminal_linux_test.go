package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tidegate/tidegate/internal/embedded"
)

// terminal opens a pseudo-terminal: what is written to person is typed at screen.
func terminal(t *testing.T) (person, screen *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return person, screen
}

func TestAPersonIsAsked(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false, "yesterday\n": false, "\x04": false} {
		person, screen := terminal(t)
		var asked output
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(screen)
		cmd.SetErr(&asked)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		err := confirm(cmd, "Close \x1b[2J for good?")
		if (err == nil) != want || err != nil && err.Error() != "nothing was changed" {
			t.Errorf("%q: %v", typed, err)
		}
		if asked.String() != "Close �[2J for good? [y/N] " {
			t.Errorf("%q", &asked)
		}
	}
}

func TestNobodyWaitsForAnAnswerAfterCtrlC(t *testing.T) {
	_, screen := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(screen)
	cmd.SetErr(&strings.Builder{})
	if err := confirm(cmd, "Close?"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("taken for a yes, or for a no: %v", err)
	}
}

// The numbers are on the screen until q is typed, and the screen is as it was then.
func TestTopInATerminal(t *testing.T) {
	person, screen := terminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	frames := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "event: frame\ndata: {\"process\":{\"version\":\"v77\"}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer frames.Close()
	api := internalAPI{getenv: nothing, base: frames.URL}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetIn(screen)
	cmd.SetOut(screen)
	ended := make(chan error, 1)
	go func() { ended <- api.showFrames(cmd) }()
	var seen strings.Builder
	until := func(what string) {
		t.Helper()
		for buffer := make([]byte, 4096); !strings.Contains(seen.String(), what); {
			n, err := person.Read(buffer)
			if err != nil {
				t.Fatalf("no %q in %q: %v", what, seen.String(), err)
			}
			seen.Write(buffer[:n])
		}
	}
	until("\x1b[?1049h") // the other screen
	until("v77")
	if _, err := person.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	until("\x1b[?1049l")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A frame that is printed is as wide as the terminal.
func TestTopOnceInATerminal(t *testing.T) {
	person, screen := terminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 20}); err != nil {
		t.Fatal(err)
	}
	var stderr output
	if err := run(t.Context(), []string{"top", "--once"}, streams(t, 1), screen, &stderr); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(person).ReadString('\n')
	if text := ansi.Strip(strings.TrimSpace(line)); err != nil || ansi.StringWidth(text) != 20 {
		t.Errorf("%v %q", err, text)
	}
}

// A person is asked before a running sale is shut. Without a terminal, or with --yes, only --force shuts it.
func TestASaleIsShutByForceOnly(t *testing.T) {
	err := withEmbedded(t.Context(), t.TempDir(), nil, io.Discard, func(_ context.Context, place embedded.Place) error {
		env := at(place.Internal)
		for _, args := range []string{"create gala --item ticket=5 --starts 2026-01-01T00:00:00Z --ends 2035-01-01T00:00:00Z", "open gala"} {
			if out, err := call(t, env, strings.Fields("sales "+args)...); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		starts := func(want string) {
			t.Helper()
			if out, err := call(t, env, "sales", "show", "gala"); err != nil || !strings.Contains(out, "starts at      "+want) {
				t.Errorf("%v, want a start at %s:\n%s", err, want, out)
			}
		}
		const later = "sales create gala --item ticket=5 --ends 2035-01-01T00:00:00Z --starts "
		_, err := call(t, env, strings.Fields(later+"2034-01-01T00:00:00Z --yes")...)
		if err == nil || !strings.HasSuffix(err.Error(), "sale gala is open, and would be shut until its new start at 2034-01-01T00:00:00Z; ?force=true does it; pass --force to do it") {
			t.Errorf("without --force: %v", err)
		}
		starts("2026-01-01T00:00:00Z")
		for _, step := range []struct{ flag, typed, start string }{
			{"", "n\n", "2026-01-01T00:00:00Z"}, {" --yes", "y\n", "2026-01-01T00:00:00Z"}, {"", "y\n", "2034-01-01T00:00:00Z"},
		} {
			person, screen := terminal(t)
			var asked output
			cmd := program(env)
			cmd.SetArgs(strings.Fields(later + "2034-01-01T00:00:00Z" + step.flag))
			cmd.SetIn(screen)
			cmd.SetOut(io.Discard)
			cmd.SetErr(&asked)
			if _, err := person.WriteString("y\n" + step.typed); err != nil {
				return err
			}
			if err := cmd.ExecuteContext(t.Context()); (err == nil) != (step.typed == "y\n" && step.flag == "") {
				t.Errorf("%q%s: %v", step.typed, step.flag, err)
			}
			if text := asked.String(); step.flag != "" && text != "" || step.flag == "" && (!strings.Contains(text, "Sale gala exists.") ||
				!strings.Contains(text, "The change would disrupt the sale: sale gala is open, and would be shut until its new start at 2034-01-01T00:00:00Z. Change it nevertheless? [y/N]")) {
				t.Errorf("%q%s: asked %q", step.typed, step.flag, text)
			}
			starts(step.start)
		}
		if _, err := call(t, env, strings.Fields(later+"2026-01-01T00:00:00Z --yes")...); err != nil { // it is not open
			return err
		}
		if _, err := call(t, env, strings.Fields(later+"2033-01-01T00:00:00Z --yes --force")...); err != nil {
			return err
		}
		starts("2033-01-01T00:00:00Z")
		out, err := call(t, env, "audit", "--json", "--limit", "1")
		if err != nil || !strings.Contains(out, `{\"force\":true,\"starts_at\":\"2033-01-01T00:00:00Z\"`) {
			t.Errorf("%v\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
