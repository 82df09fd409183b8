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
		ask(cmd, "name", "as it was typed")
		ask(cmd, "ip", "address")
		ask(cmd, "factor", "what is tried, such as otp (default: password)")
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
			path: below("login", "history"), query: asked, list: true, many: true, columns: []string{"at", "rule", "action", "count", "factor", "reference", "ip", "until", "times", "shadow"},
			flags: func(cmd *cobra.Command) {
				ask(cmd, "reference", "only of the name that it stands for; logins show says it")
			},
		},
	)
}
