// Command worker writes accepted orders to Postgres.
package main

import (
	"context"
	"io"
	"os"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, _, stderr io.Writer) error {
	cfg, err := config.Worker(args, getenv, stderr)
	if err != nil {
		return err
	}
	return serve.Worker(ctx, cfg, cfg.Logger(stderr))
}
