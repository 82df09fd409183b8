package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/config"
)

const (
	pingTimeout = 2 * time.Second // of the first attempt
	pingAgain   = 200 * time.Millisecond
	logAgain    = 5 * time.Second
)

// A dependency is a server that a process cannot start without.
type dependency struct {
	variable string // the environment variable with its address
	at       config.URL
	ping     func(context.Context) error
}

// await returns once all of them answered. Servers may start in any order, so await waits for them, for at most timeout: with a
// mistyped address the program must fail. An attempt that ran out of time is followed by one with twice the time, since it may be
// many round trips to a server that is slow. A Redis that answers NOPERM is not waited for.
func await(ctx context.Context, log *slog.Logger, timeout time.Duration, all ...dependency) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, d := range all {
		g.Go(func() error { return d.await(ctx, log, timeout) })
	}
	return g.Wait()
}

func (d *dependency) await(ctx context.Context, log *slog.Logger, timeout time.Duration) error {
	var (
		started = time.Now()
		expired = time.After(timeout)
		again   = time.NewTicker(pingAgain)
		logged  time.Time
		within  = min(pingTimeout, timeout)
	)
	defer again.Stop()
	for {
		err := d.once(ctx, within)
		if err == nil {
			return nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			within = max(pingAgain, min(2*within, timeout-time.Since(started)))
		}
		if redis.HasErrorPrefix(err, "NOPERM") { // the server answers, and waiting gives no permission
			return fmt.Errorf("%s: the user of %s lacks a permission: %w; docs/operations.md has the ACL SETUSER with all of them", d.variable,
				d.at, err)
		}
		if time.Since(logged) >= logAgain && ctx.Err() == nil {
			logged = time.Now()
			log.Warn("waiting for a server", "variable", d.variable, "at", d.at, "error", err,
				"giving_up_in", (timeout - time.Since(started)).Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-expired:
			return fmt.Errorf("%s: no valid answer from %s within %v: %w; start the server, or correct the variable",
				d.variable, d.at, timeout, err)
		case <-again.C:
		}
	}
}

func (d *dependency) once(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.ping(ctx)
}
