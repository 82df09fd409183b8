package main

import (
	"context"
	"net/http"
	"net/url"
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
			use: "history", short: "List what became of bans, the newest first", method: http.MethodGet, path: below("bans", "history"), list: true, newest: true,
			columns: []string{"at", "event", "kind", "value", "until", "rule", "reason"},
		},
	)
}

// loginsCommand is for a caller who says that they cannot log in.
func loginsCommand(getenv func(string) string) *cobra.Command {
	query := url.Values{}
	subject := func(cmd *cobra.Command) {
		for name, usage := range map[string]string{"name": "as it was typed", "ip": "address", "factor": "what is tried, such as otp (default: password)"} {
			cmd.Flags().Func(name, usage, func(value string) error {
				query.Set(name, value)
				return nil
			})
		}
		cmd.MarkFlagsOneRequired("name", "ip")
	}
	asked := func() url.Values { return query }
	at := func([]string) []string { return []string{"v1", "login", "subjects"} }
	return calls(
		getenv, "logins", "Show why somebody cannot log in, and let them",
		apiCall{
			use: "show", short: "Show how a name or an address stands in the rules for failed logins", method: http.MethodGet,
			path: at, flags: subject, query: asked, columns: []string{"banned", "reference", "items"},
		},
		apiCall{
			use: "lift", short: "Forget what has failed of a name or an address; a ban is lifted by bans lift", method: http.MethodDelete,
			path: at, flags: subject, query: asked, done: "lifted",
		},
		apiCall{
			use: "history", short: "List what rules did about failed logins, the newest first; nobody is named", method: http.MethodGet,
			path: below("login", "history"), list: true, newest: true, columns: []string{"at", "rule", "action", "count", "factor", "reference", "ip", "until", "times", "shadow"},
		},
	)
}
