package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// loginsCommand inspects and lifts login penalties, for users who report that they cannot log in.
func loginsCommand(getenv func(string) string) *cobra.Command {
	query := url.Values{}
	ask := func(cmd *cobra.Command, name, usage string) {
		cmd.Flags().Func(name, usage, func(value string) error {
			query.Set(name, value)
			return nil
		})
	}
	subject := func(cmd *cobra.Command) {
		ask(cmd, "name", "login name, as typed")
		ask(cmd, "ip", "client address")
		ask(cmd, "factor", "login factor, such as otp (default: password)")
		cmd.MarkFlagsOneRequired("name", "ip")
	}
	asked := func([]string) url.Values { return query }
	at := func([]string) []string { return []string{"v1", "login", "subjects"} }
	return calls(
		getenv, "logins", "Show why a user cannot log in, and lift login penalties",
		apiCall{
			use: "show", short: "Show the login penalties of a name or an address", method: http.MethodGet,
			path: at, flags: subject, query: asked, columns: []string{"banned", "reference", "items"},
		},
		apiCall{
			use: "lift", short: "Forget the failed logins of a name or an address; bans lift lifts bans", method: http.MethodDelete,
			path: at, flags: subject, query: asked, done: "lifted",
		},
		apiCall{
			use: "history", short: "List actions of the login rules, newest first, without names", method: http.MethodGet,
			path: below("login", "history"), query: asked, list: true, many: true,
			columns: []string{"at", "rule", "action", "count", "factor", "reference", "ip", "until", "times", "shadow"},
			flags: func(cmd *cobra.Command) {
				ask(cmd, "reference", "only events of the name with this reference, which logins show prints")
			},
		},
	)
}
