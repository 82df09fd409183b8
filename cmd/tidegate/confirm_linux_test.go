package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: what is written to person is typed at screen.
func terminal(t *testing.T) (person, screen *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
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
	if err := confirm(cmd, "Close?"); err == nil {
		t.Error("taken for a yes")
	}
}
