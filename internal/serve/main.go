package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // rules name time zones, and an image from scratch has no zone data

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"

	"github.com/tidegate/tidegate/internal/logsink"
	"github.com/tidegate/tidegate/internal/periodic"
)

// Interrupted is the cause of a program's cancelled context: the signal that it received.
type Interrupted struct{ Signal syscall.Signal }

func (Interrupted) Error() string { return "interrupted" }

// Is reports whether err is context.Canceled.
func (Interrupted) Is(err error) bool { return err == context.Canceled }

// stderr is where programs write their log. They go on when its reader does not keep up.
var stderr = logsink.New(os.Stderr, 4<<20)

// flushWithin is how long the end of the log may take to be read.
const flushWithin = time.Second

// reportDropped logs how many lines of the log were dropped, until ctx ends: once its reader reads again.
func (p *Process) reportDropped(ctx context.Context) error {
	var reported uint64
	return periodic.Every(ctx, time.Second, func() {
		if lines, caughtUp := stderr.Dropped(); lines > reported && caughtUp {
			p.Log.WarnContext(ctx, "lines of the log were dropped, because its reader did not keep up", slog.Uint64("lines", lines-reported))
			reported = lines
		}
	})
}

// gcPercent is GOGC where a limit bounds the memory, unless the environment sets it: the heap grows to five times what is in use before it
// is collected, but not beyond the limit.
const gcPercent = 400

// boundMemory sets Go's memory limit to nine tenths of the container's, unless GOMEMLIMIT sets it, and how often memory is collected.
func boundMemory() {
	_, _ = memlimit.Set() // fails where there are no containers
	if _, set := os.LookupEnv("GOGC"); !set && debug.SetMemoryLimit(-1) < math.MaxInt64 {
		debug.SetGCPercent(gcPercent)
	}
}

// Main runs a program until it ends or receives SIGINT or SIGTERM, and returns its exit status: 0, also after a signal, or 1
// with the error on stderr, or the result of the error's method ExitStatus() int. A second signal kills the program.
func Main(run func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error) int {
	boundMemory()
	redis.SetLogger(discard{})
	otel.SetErrorHandler(discard{})
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer stderr.Flush(flushWithin)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		end(Interrupted{s.(syscall.Signal)})
	}()

	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, stderr)
	var other interface{ ExitStatus() int }
	special := errors.As(err, &other)
	stopped := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err == nil || stopped && !special || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "error:", strings.TrimSuffix(line, "\n"))
	}
	if special {
		return other.ExitStatus()
	}
	return 1
}

// discard drops what go-redis and OpenTelemetry write to stderr by themselves, in other formats: a line for every failed
// dial, many per second while Redis is down, and one for each of our variables that is empty. Relevant errors are also returned.
type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}
func (discard) Handle(error)                           {}
