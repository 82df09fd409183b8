package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func semaphoresCommand(getenv func(string) string) *cobra.Command {
	var (
		limit int
		lease time.Duration
	)
	inDetail := []string{"name", "limit", "lease_ms", "source", "declared", "set_by", "set_at", "in_use", "waiting", "quiet_ms", "held_ms", "totals", "holders", "waiters"}
	return calls(
		getenv, "semaphores", "List, size and free semaphores",
		apiCall{
			use: "list", short: "List all semaphores and who holds them", method: http.MethodGet, path: below("semaphores"), list: true,
			columns: []string{"name", "limit", "in_use", "waiting", "source", "holders"},
		},
		apiCall{
			use: "show NAME", short: "Show a semaphore, who holds it and who waits", method: http.MethodGet, path: below("semaphores"), columns: inDetail,
			complete: semaphoreNames,
		},
		apiCall{
			use: "set NAME", short: "Define or resize a semaphore; nobody is evicted", method: http.MethodPut, path: below("semaphores"), columns: inDetail,
			complete: semaphoreNames, example: "  tidegate semaphores set report --limit 5",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().IntVar(&limit, "limit", 0, "weight that may be held at once")
				cmd.Flags().DurationVar(&lease, "lease", 0, "how long a permit lasts without renewal; 0: as it is, or 15s of a new semaphore")
				_ = cmd.MarkFlagRequired("limit") // fails only for an unknown flag
			},
			body: func(ctx context.Context, api *internalAPI, args []string) (any, error) {
				return resized(ctx, api, args[0], limit, lease)
			},
		},
		apiCall{
			use: "revert NAME", short: "Take back what set has said: the rules file counts again", method: http.MethodDelete, path: below("semaphores"),
			columns: inDetail, complete: semaphoreNames,
		},
		apiCall{
			use: "release NAME PERMIT", short: "Take a permit away from its holder; show names its id", method: http.MethodDelete, done: "released",
			path: func(args []string) []string { return []string{"v1", "semaphores", args[0], "permits", args[1]} },
			ask: func(_ context.Context, _ *internalAPI, args []string) (string, error) {
				return "Take the permit of " + args[0] + " away? Its holder has to stop, and another one may begin.", nil
			},
			complete: append(semaphoreNames[:1:1], permitsOf),
		},
	)
}

// resized returns the body of PUT for a semaphore. PUT resets a missing lease to the default, so the current lease is included.
func resized(ctx context.Context, api *internalAPI, name string, limit int, lease time.Duration) (any, error) {
	to := struct {
		Limit   int   `json:"limit"`
		LeaseMS int64 `json:"lease_ms,omitempty"`
	}{LeaseMS: lease.Milliseconds()}
	if lease == 0 {
		if err := api.call(ctx, http.MethodGet, &to, "v1", "semaphores", name); err != nil && !hasStatus(err, http.StatusNotFound) {
			return nil, err
		}
	}
	to.Limit = limit
	return to, nil
}
