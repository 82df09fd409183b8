package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Lend provides the servers to a program that is not a test. f starts them as a test does; they are stopped when Lend returns. Failures
// of the test helpers are returned as an error, joined with that of f.
func Lend(ctx context.Context, f func(t testing.TB) error) error {
	b := &borrower{ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer b.cleanUp()
		if err := f(b); err != nil {
			b.fail(err)
		}
	}()
	<-ended
	stopAll()
	return errors.Join(b.errs...)
}

// borrower implements the methods of a test that this package and servetest use. All others panic.
type borrower struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

func (b *borrower) Helper() {}

func (b *borrower) Context() context.Context { return b.ctx }

func (b *borrower) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *borrower) Errorf(format string, args ...any) { b.fail(fmt.Errorf(format, args...)) }

func (b *borrower) Fatalf(format string, args ...any) {
	b.Errorf(format, args...)
	runtime.Goexit()
}

func (b *borrower) Fatal(args ...any) { b.Fatalf("%s", fmt.Sprint(args...)) }

func (b *borrower) TempDir() string {
	dir, err := tempDir("program")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (b *borrower) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

func (b *borrower) cleanUp() {
	for {
		b.mu.Lock()
		n := len(b.cleanups)
		if n == 0 {
			b.mu.Unlock()
			return
		}
		last := b.cleanups[n-1]
		b.cleanups = b.cleanups[:n-1]
		b.mu.Unlock()
		last()
	}
}
