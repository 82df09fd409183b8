package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/httpapi/admit"
)

func bansCommand(getenv func(string) string) *cobra.Command {
	var (
		length time.Duration
		reason string
	)
	columns := []string{"kind", "value", "until", "times", "rule", "reason"}
	return calls(
		getenv, "bans", "List, add and lift bans of users, addresses, networks and devices",
		apiCall{use: "list", short: "List the bans in force", method: http.MethodGet, path: below("bans"), list: true, columns: columns},
		apiCall{
			use: "add KIND VALUE", short: "Ban a user, ip, network or device", method: http.MethodPut, path: below("bans"), columns: columns,
			complete: banKinds,
			example:  "  tidegate bans add network 203.0.113.0/24 --for 2h \\\n      --reason 'a flood since noon'",
			flags: func(cmd *cobra.Command) {
				cmd.Flags().DurationVar(&length, "for", time.Hour, "duration of the ban")
				cmd.Flags().StringVar(&reason, "reason", "", "reason, shown to operators only")
			},
			body: func(context.Context, *internalAPI, []string) (any, error) {
				return admit.BanOrder{ForMS: length.Milliseconds(), Reason: reason}, nil
			},
		},
		apiCall{
			use: "lift KIND VALUE", short: "Lift a ban", method: http.MethodDelete, path: below("bans"), done: "lifted",
			complete: append(banKinds[:1:1], bannedValues),
		},
		apiCall{
			use: "history", short: "List the history of bans, newest first", method: http.MethodGet, path: below("bans", "history"), list: true,
			many:    true,
			columns: []string{"at", "event", "kind", "value", "until", "rule", "reason"},
		},
	)
}
