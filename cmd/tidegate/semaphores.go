package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/permits"
)

func semaphoresCommand(getenv func(string) string) *cobra.Command {
	var (
		limit int
		lease time.Duration
	)
	inDetail := []string{
		"name", "limit", "lease_ms", "source", "declared", "set_by", "set_at", "in_use", "waiting", "quiet_ms", "held_ms",
		"totals", "holders", "waiters",
	}
	return calls(
		getenv, "semaphores", "List, define, resize and free semaphores",
		apiCall{
			use: "list", short: "List all semaphores and their holders", method: http.MethodGet, path: below("semaphores"), list: true,
			columns: []string{"name", "limit", "in_use", "waiting", "source", "holders"},
		},
		apiCall{
			use: "show NAME", short: "Show a semaphore with its holders and waiters", method: http.MethodGet, path: below("semaphores"),
			columns:  inDetail,
			complete: semaphoreNames,
		},
		apiCall{
			use: "set NAME", short: "Define or resize a semaphore; holders keep their permits", method: http.MethodPut, path: below("semaphores"),
			columns:  inDetail,
			complete: semaphoreNames, example: "  tidegate semaphores set report --limit 5",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().IntVar(&limit, "limit", 0, "maximum total weight of permits")
				cmd.Flags().DurationVar(&lease, "lease", 0, "lifetime of a permit without renewal; 0: unchanged, or 15s for a new semaphore")
				_ = cmd.MarkFlagRequired("limit") // fails only for an unknown flag
			},
			body: func(ctx context.Context, api *internalAPI, args []string) (any, error) {
				return resized(ctx, api, args[0], limit, lease)
			},
		},
		apiCall{
			use: "revert NAME", short: "Undo set: the definition of the rules file applies again", method: http.MethodDelete,
			path:    below("semaphores"),
			columns: inDetail, complete: semaphoreNames,
		},
		apiCall{
			use: "release NAME PERMIT", short: "Release a permit; semaphores show lists the ids", method: http.MethodDelete, done: "released",
			path: func(args []string) []string { return []string{"v1", "semaphores", args[0], "permits", args[1]} },
			ask: func(_ context.Context, _ *internalAPI, args []string) (string, error) {
				return "Release the permit of " + args[0] + "? Its holder must stop, and another one may start.", nil
			},
			complete: append(semaphoreNames[:1:1], permitsOf),
		},
	)
}

// resized returns the body of PUT for a semaphore. PUT resets a missing lease to the default, so the current lease is included.
func resized(ctx context.Context, api *internalAPI, name string, limit int, lease time.Duration) (any, error) {
	to := permits.SemaphoreDefinition{Limit: limit, LeaseMS: lease.Milliseconds()}
	if lease == 0 {
		is, err := ask[permits.SemaphoreView](ctx, api, http.MethodGet, nil, nil, "v1", "semaphores", name)
		if err != nil && !apiclient.HasStatus(err, http.StatusNotFound) {
			return nil, err
		}
		to.LeaseMS = is.LeaseMS
	}
	return to, nil
}
