// Command worker writes accepted orders to Postgres.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := config.Worker(args, getenv, stderr)
	if errors.Is(err, config.ErrVersion) {
		return serve.PrintVersion(stdout, "worker")
	}
	if err != nil {
		return err
	}
	return serve.Worker(ctx, cfg, cfg.Logger(stderr))
}
