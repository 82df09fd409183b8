// Command tidegate is for whoever runs a sale: see it sell, rehearse it, check it, migrate its database.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	root := &cobra.Command{
		Use:           "tidegate",
		Short:         "See a flash sale sell, rehearse it, check it",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(demoCommand(), rehearseCommand(getenv), verifyCommand(getenv), ordersCommand(getenv), salesCommand(getenv), bansCommand(getenv), semaphoresCommand(getenv), auditCommand(getenv), topCommand(getenv), migrateCommand(getenv), rulesCommand(getenv), reportCommand(getenv), healthCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}
