package main

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func bansCommand(getenv func(string) string) *cobra.Command {
	var (
		length time.Duration
		reason string
	)
	return group(getenv, "bans", "List, make and lift bans of users, addresses, networks and devices",
		apiCall{use: "list", short: "List the bans in force", method: http.MethodGet, path: below("bans"), columns: []string{"kind", "value", "until", "times", "rule", "reason"}},
		apiCall{
			use: "add KIND VALUE", short: "Ban a user, ip, network or device", args: 2, method: http.MethodPut, path: below("bans"),
			columns: []string{"kind", "value", "until", "times", "reason"},
			flags: func(cmd *cobra.Command) {
				cmd.Flags().DurationVar(&length, "for", time.Hour, "how long, from now")
				cmd.Flags().StringVar(&reason, "reason", "", "for other operators; the banned caller is not told")
			},
			body: func([]string) (any, error) {
				return map[string]any{"for_ms": length.Milliseconds(), "reason": reason}, nil
			},
		},
		apiCall{use: "lift KIND VALUE", short: "Let a caller in again", args: 2, method: http.MethodDelete, path: below("bans"), done: "lifted"},
		apiCall{use: "history", short: "List what became of bans, the newest first", method: http.MethodGet, path: below("bans", "history"), columns: []string{"at", "event", "kind", "value", "until", "rule", "reason"}},
	)
}

func semaphoresCommand(getenv func(string) string) *cobra.Command {
	var (
		limit int
		lease time.Duration
	)
	columns := []string{"name", "limit", "in_use", "waiting", "source", "holders"}
	return group(getenv, "semaphores", "List, size and free semaphores",
		apiCall{use: "list", short: "List all semaphores and who holds them", method: http.MethodGet, path: below("semaphores"), columns: columns},
		apiCall{use: "show NAME", short: "Show a semaphore; --json names every permit", args: 1, method: http.MethodGet, path: below("semaphores"), columns: columns},
		apiCall{
			use: "set NAME", short: "Define or resize a semaphore; nobody is evicted", args: 1, method: http.MethodPut, path: below("semaphores"), columns: columns,
			flags: func(cmd *cobra.Command) {
				cmd.Flags().IntVar(&limit, "limit", 0, "weight that may be held at once")
				cmd.Flags().DurationVar(&lease, "lease", 15*time.Second, "how long a permit lasts without renewal")
				_ = cmd.MarkFlagRequired("limit") // it exists
			},
			body: func([]string) (any, error) {
				return map[string]any{"limit": limit, "lease_ms": lease.Milliseconds()}, nil
			},
		},
		apiCall{use: "revert NAME", short: "Take back what set has said: the rules file counts again", args: 1, method: http.MethodDelete, path: below("semaphores"), columns: columns, done: "reverted"},
		apiCall{
			use: "release NAME PERMIT", short: "Take a permit away from its holder", args: 2, method: http.MethodDelete, done: "released",
			path: func(args []string) []string { return []string{"v1", "semaphores", args[0], "permits", args[1]} },
		},
	)
}

func auditCommand(getenv func(string) string) *cobra.Command {
	return apiCall{
		use: "audit", short: "List what operators changed, the newest first", method: http.MethodGet, path: below("audit"),
		columns: []string{"at", "actor", "action", "target", "outcome", "request_id"},
	}.command(getenv)
}
