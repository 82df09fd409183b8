// Command api serves HTTP. Without REDIS_URL and DATABASE_URL it is the embedded server, which needs nothing else.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve"
)

func main() { os.Exit(serve.Main(run)) }

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := config.API(args, getenv, stderr)
	if errors.Is(err, config.ErrVersion) {
		return serve.PrintVersion(stdout, "api")
	}
	if err != nil {
		return err
	}
	log := cfg.Logger(stderr)
	if !cfg.Embedded() {
		return serve.API(ctx, cfg, log)
	}
	return embedded.Run(ctx, cfg, log, func(at embedded.Place) { at.Describe(stdout) })
}
