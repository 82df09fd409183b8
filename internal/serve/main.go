package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // rules name zones, and an image from scratch has none

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
)

// Main runs a program until it ends or is told to by SIGINT or SIGTERM, and returns its exit status: 0, or 1 with the
// error on stderr, or what an error with a method ExitStatus() int says. A second signal kills.
func Main(run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error) int {
	redis.SetLogger(unheard{})
	otel.SetErrorHandler(unheard{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	toldToStop := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err == nil || toldToStop || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "error:", strings.TrimSuffix(line, "\n"))
	}
	var other interface{ ExitStatus() int }
	if errors.As(err, &other) {
		return other.ExitStatus()
	}
	return 1
}

// unheard is for what go-redis and OpenTelemetry write to stderr by themselves: a line for every failed dial, many a second while Redis is
// away, and one for each variable of ours that is set to nothing, in no format of ours. What matters comes back as an error as well.
type unheard struct{}

func (unheard) Printf(context.Context, string, ...any) {}
func (unheard) Handle(error)                           {}
