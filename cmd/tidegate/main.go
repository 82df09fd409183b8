// Command tidegate is for whoever runs a sale: see it sell, operate it, rehearse it, check it, migrate its database.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	root := group("tidegate", "See a flash sale sell, operate it, rehearse it, check it",
		topCommand(getenv), salesCommand(getenv), ordersCommand(getenv), verifyCommand(getenv), rulesCommand(getenv), explainCommand(getenv),
		bansCommand(getenv), loginsCommand(getenv), semaphoresCommand(getenv), auditCommand(getenv), reportCommand(getenv),
		rehearseCommand(getenv), demoCommand(), withCommand(), migrateCommand(getenv), healthCommand())
	root.Version = serve.Version()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := strings.TrimPrefix(err.Error(), "invalid argument ")
		if strings.Contains(text, "duration") {
			text += "; a duration is such as 90s, 15m or 1h30m"
		}
		return fmt.Errorf("%s; see %s --help", text, cmd.CommandPath())
	})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var told serve.Told
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &told) {
		if !errors.Is(err, told) { // of a library, which says it in its own words
			err = fmt.Errorf("%w; %s", told, unsure)
		}
		return interrupted{err, told.Signal}
	}
	if err != nil && !errors.Is(err, errDifferent) && cmd.Name() == "diff" {
		return undecided{err}
	}
	return err
}

// unsure is said of a change that was not answered.
const unsure = "whether it was done is not known"

// interrupted is the error of a command that a signal has ended before it was done.
type interrupted struct {
	error
	by syscall.Signal
}

// ExitStatus is what shells have for it.
func (i interrupted) ExitStatus() int { return 128 + int(i.by) }

func (i interrupted) Unwrap() error { return i.error }

// undecided is the error of a comparison, whose status 1 says that there is a difference.
type undecided struct{ error }

// ExitStatus is what diff has for trouble.
func (undecided) ExitStatus() int { return 2 }

func (e undecided) Unwrap() error { return e.error }
