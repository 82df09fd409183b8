package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func bansCommand(getenv func(string) string) *cobra.Command {
	var (
		length time.Duration
		reason string
	)
	columns := []string{"kind", "value", "until", "times", "rule", "reason"}
	return calls(
		getenv, "bans", "List, make and lift bans of users, addresses, networks and devices",
		apiCall{use: "list", short: "List the bans in force", method: http.MethodGet, path: below("bans"), list: true, columns: columns},
		apiCall{
			use: "add KIND VALUE", short: "Ban a user, ip, network or device", method: http.MethodPut, path: below("bans"), columns: columns, complete: banKinds,
			example: "  tidegate bans add network 203.0.113.0/24 --for 2h --reason 'a flood since noon'",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().DurationVar(&length, "for", time.Hour, "how long, from now")
				cmd.Flags().StringVar(&reason, "reason", "", "for other operators; the banned caller is not told")
			},
			body: func(context.Context, *internalAPI, []string) (any, error) {
				return map[string]any{"for_ms": length.Milliseconds(), "reason": reason}, nil
			},
		},
		apiCall{
			use: "lift KIND VALUE", short: "Let a caller in again", method: http.MethodDelete, path: below("bans"), done: "lifted",
			complete: append(banKinds[:1:1], bannedValues),
		},
		apiCall{
			use: "history", short: "List what became of bans, the newest first", method: http.MethodGet, path: below("bans", "history"), list: true, many: true,
			columns: []string{"at", "event", "kind", "value", "until", "rule", "reason"},
		},
	)
}
