package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/processgroup"
)

func withCommand() *cobra.Command {
	var rules string
	cmd := &cobra.Command{
		Use:   "with COMMAND...",
		Short: "Run a command with an embedded server, for development and tests",
		Long: "Start an embedded server with an open sale, run a command, and stop the server when the command ends. The exit status is that " +
			"of the command.\nThe command's environment has TIDEGATE_URL and TIDEGATE_INTERNAL_URL, the two listeners, which require no token, " +
			"and REDIS_URL, the server's Redis in memory, for semaphores and task queues. The server trusts X-User-ID and X-Forwarded-For from " +
			"this machine. Its data is in a temporary folder.",
		Example: `  tidegate with go run ./examples/shop
  tidegate with --rules rules.yaml -- npm test`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("COMMAND is required; usage: tidegate with COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			settings := []string{"-trusted-proxies", "127.0.0.0/8,::1"}
			if rules != "" {
				settings = append(settings, "-rules-file", rules)
			}
			return withEmbedded(cmd.Context(), "", settings, cmd.ErrOrStderr(), func(ctx context.Context, at embedded.Place) error {
				fmt.Fprintf(cmd.ErrOrStderr(), "Tidegate is listening on %s (public) and %s (internal); sale %s is open.\n", at.Public, at.Internal,
					at.Sale)
				return beside(ctx, cmd, at, args)
			})
		},
	}
	cmd.Flags().StringVar(&rules, "rules", "", "rules file of the server (default: the built-in rules)")
	cmd.Flags().SetInterspersed(false) // flags after the command belong to the command
	return cmd
}

// stopWithin is how long a command may take to stop after a signal.
const stopWithin = 10 * time.Second

// beside runs a command with the server's address in its environment. When ctx ends, it stops the command and all its child processes: go
// run, for example, does not pass signals on. Windows has no process groups; there only the command itself is stopped.
func beside(ctx context.Context, of *cobra.Command, at embedded.Place, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TIDEGATE_URL="+at.Public, "TIDEGATE_INTERNAL_URL="+at.Internal, "REDIS_URL="+at.Redis)
	cmd.Stdout, cmd.Stderr = of.OutOrStdout(), of.ErrOrStderr()
	processgroup.Begin(cmd)
	cmd.Cancel = func() error { return processgroup.Terminate(cmd) }
	cmd.WaitDelay = stopWithin
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if ctx.Err() != nil { // it was signalled to stop
		_ = processgroup.Kill(cmd) // kill the remaining processes
		return nil
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return failed{fmt.Errorf("%s: %w", args[0], err), exit.ExitCode()}
	}
	return err
}

// failed is the error of a command that exited with a nonzero status.
type failed struct {
	error
	status int
}

// ExitStatus returns the command's status, or 1 if a signal ended it.
func (f failed) ExitStatus() int { return max(1, f.status) }
