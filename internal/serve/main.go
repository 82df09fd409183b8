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

// Told is why the context of a program ends: a signal said so.
type Told struct{ Signal syscall.Signal }

func (Told) Error() string { return "interrupted" }

// Is tells that it is a context.Canceled.
func (Told) Is(err error) bool { return err == context.Canceled }

// Main runs a program until it ends or is told to by SIGINT or SIGTERM, and returns its exit status: 0, also if it ends because it was told
// to, or 1 with the error on stderr, or what an error with a method ExitStatus() int says. A second signal kills.
func Main(run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error) int {
	redis.SetLogger(unheard{})
	otel.SetErrorHandler(unheard{})
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		end(Told{s.(syscall.Signal)})
	}()

	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	var other interface{ ExitStatus() int }
	special := errors.As(err, &other)
	toldToStop := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err == nil || toldToStop && !special || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "error:", strings.TrimSuffix(line, "\n"))
	}
	if special {
		return other.ExitStatus()
	}
	return 1
}

// unheard is for what go-redis and OpenTelemetry write to stderr by themselves: a line for every failed dial, many a second while Redis is
// away, and one for each variable of ours that is set to nothing, in no format of ours. What matters comes back as an error as well.
type unheard struct{}

func (unheard) Printf(context.Context, string, ...any) {}
func (unheard) Handle(error)                           {}
