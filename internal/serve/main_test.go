package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidegate/tidegate/internal/serve"
)

// failed is an error with its own exit status.
type failed struct{ error }

func (failed) ExitStatus() int { return 42 }

func (f failed) Unwrap() error { return f.error }

// TestMainEndsWithAStatus runs itself as a program for each case.
func TestMainEndsWithAStatus(t *testing.T) {
	wrong := errors.New("wrong")
	cases := []struct {
		name   string
		signal syscall.Signal
		end    func(context.Context) error
		want   int
	}{
		{"done", 0, func(context.Context) error { return nil }, 0},
		{"wrong", 0, func(context.Context) error { return wrong }, 1},
		{"wrong in a way of its own", 0, func(context.Context) error { return failed{wrong} }, 42},
		{"told to stop, and did", syscall.SIGTERM, func(context.Context) error { return nil }, 0},
		{"told to stop while it began", syscall.SIGTERM, func(ctx context.Context) error { return ctx.Err() }, 0},
		{"told to stop, and could not", syscall.SIGTERM, func(context.Context) error { return wrong }, 1},
		{"told to stop before it was done", syscall.SIGINT, func(ctx context.Context) error {
			if !errors.Is(context.Cause(ctx), serve.Interrupted{Signal: syscall.SIGINT}) {
				return wrong
			}
			return failed{context.Cause(ctx)}
		}, 42},
	}
	const which = "TEST_MAIN_CASE"
	asked, isProgram := os.LookupEnv(which)
	for _, tt := range cases {
		if isProgram && tt.name != asked {
			continue // otherwise each would also run all earlier ones
		}
		if isProgram {
			os.Exit(serve.Main(func(ctx context.Context, _ []string, _ func(string) string, _, _ io.Writer) error {
				if tt.signal != 0 {
					_ = syscall.Kill(syscall.Getpid(), tt.signal)
					<-ctx.Done()
				}
				return tt.end(ctx)
			}))
		}
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		program.Env = append(os.Environ(), which+"="+tt.name)
		if out, _ := program.CombinedOutput(); program.ProcessState.ExitCode() != tt.want {
			t.Errorf("%s: status %d, want %d\n%s", tt.name, program.ProcessState.ExitCode(), tt.want, out)
		}
	}
}

// TestAProgramEndsThoughNobodyReadsItsLog runs itself as a program, and does not read what it writes.
func TestAProgramEndsThoughNobodyReadsItsLog(t *testing.T) {
	const is = "TEST_MAIN_LOGS"
	if _, isProgram := os.LookupEnv(is); isProgram {
		os.Exit(serve.Main(func(_ context.Context, _ []string, _ func(string) string, stdout, stderr io.Writer) error {
			line := strings.Repeat("x", 999) + "\n"
			for range 10_000 {
				if _, err := io.WriteString(stderr, line); err != nil {
					return err
				}
			}
			_, err := io.WriteString(stdout, "done")
			return err
		}))
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	program.Env = append(os.Environ(), is+"=1")
	unread, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	program.Stderr = log
	out, err := program.Output()
	if err != nil || string(out) != "done" {
		t.Errorf("%q, %v", out, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryIsCollectedLessOftenWhereItIsBounded runs itself as a program, which exits with the percentage by which its heap grows.
func TestMemoryIsCollectedLessOftenWhereItIsBounded(t *testing.T) {
	const is = "TEST_MAIN_GC"
	if _, isProgram := os.LookupEnv(is); isProgram {
		os.Exit(serve.Main(func(_ context.Context, _ []string, _ func(string) string, stdout, _ io.Writer) error {
			_, err := fmt.Fprint(stdout, debug.SetGCPercent(100))
			return err
		}))
	}
	for _, tt := range []struct{ env, want string }{{"GOMEMLIMIT=1GiB", "400"}, {"GOMEMLIMIT=1GiB GOGC=50", "50"}, {"GOMEMLIMIT=off", "100"}} {
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		program.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
		}), append(strings.Fields(tt.env), is+"=1")...)
		if out, err := program.Output(); err != nil || string(out) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.env, out, err, tt.want)
		}
	}
}
