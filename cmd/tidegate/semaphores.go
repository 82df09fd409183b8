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
				cmd.Flags().DurationVar(&lease, "lease", 15*time.Second, "how long a permit lasts without renewal")
				_ = cmd.MarkFlagRequired("limit") // it exists
			},
			body: func(context.Context, *internalAPI, []string) (any, error) {
				return map[string]any{"limit": limit, "lease_ms": lease.Milliseconds()}, nil
			},
		},
		apiCall{
			use: "revert NAME", short: "Take back what set has said: the rules file counts again", method: http.MethodDelete, path: below("semaphores"),
			columns: inDetail, complete: semaphoreNames,
		},
		apiCall{
			use: "release NAME PERMIT", short: "Take a permit away from its holder; show names its id", method: http.MethodDelete, done: "released",
			path: func(args []string) []string { return []string{"v1", "semaphores", args[0], "permits", args[1]} },
			ask: func(args []string) string {
				return "Take the permit of " + args[0] + " away? Its holder has to stop, and another one may begin."
			},
			complete: append(semaphoreNames[:1:1], permitsOf),
		},
	)
}
