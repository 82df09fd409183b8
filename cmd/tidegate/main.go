// Command tidegate is the operator's tool: it demonstrates, operates, rehearses and verifies sales, and migrates the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	root := program(getenv)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var stopped serve.Interrupted
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &stopped) {
		if !errors.Is(err, stopped) { // an error of a library, in its own words
			err = fmt.Errorf("%w; %s", stopped, unsure)
		}
		return interrupted{err, stopped.Signal}
	}
	if found := (finding{}); err != nil && !errors.As(err, &found) &&
		slices.Contains(judging, strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")) {
		return undecided{err}
	}
	return err
}

// program returns the command that contains all others.
func program(getenv func(string) string) *cobra.Command {
	root := group("tidegate", "Operate, rehearse and verify flash sales")
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Sales:", []*cobra.Command{
			topCommand(getenv), salesCommand(getenv), ordersCommand(getenv), roomsCommand(getenv),
			verifyCommand(getenv), auditCommand(getenv), reportCommand(getenv),
		}},
		{"Limits:", []*cobra.Command{
			rulesCommand(getenv), explainCommand(getenv), bansCommand(getenv), loginsCommand(getenv),
			semaphoresCommand(getenv),
		}},
		{"Trials:", []*cobra.Command{demoCommand(), rehearseCommand(getenv), withCommand()}},
		{"Installation:", []*cobra.Command{doctorCommand(getenv), migrateCommand(getenv), adoptCommand(getenv), healthCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.SetCompletionCommandGroupID("Installation:")
	root.SetHelpFunc(showHelp)
	root.Version = serve.Build()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := strings.TrimPrefix(err.Error(), "invalid argument ")
		if strings.Contains(text, "duration") {
			text += "; durations are written like 90s, 15m or 1h30m"
		}
		return fmt.Errorf("%s; see %s --help", text, cmd.CommandPath())
	})
	return root
}

// unsure is appended to the error of a change without an answer.
const unsure = "whether it was done is unknown"

// interrupted is the error of a command that a signal ended.
type interrupted struct {
	error
	by syscall.Signal
}

// ExitStatus returns the shells' exit status for the signal.
func (i interrupted) ExitStatus() int { return 128 + int(i.by) }

func (i interrupted) Unwrap() error { return i.error }

// judging lists the commands that judge something. As with diff and grep, their exit status is 1 for a finding, and 2 for other errors.
var judging = []string{
	"verify", "rooms verify", "rooms verify-draw", "rules check", "rules diff", "rules test", "doctor", "rehearse",
	"demo",
}

// A finding is the error of a command that has judged something, with a bad result.
type finding struct{ error }

func (f finding) Unwrap() error { return f.error }

// undecided is the error of a command that should have judged something and could not.
type undecided struct{ error }

// ExitStatus returns 2.
func (undecided) ExitStatus() int { return 2 }

func (e undecided) Unwrap() error { return e.error }
