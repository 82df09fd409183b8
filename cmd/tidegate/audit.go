package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

func auditCommand(getenv func(string) string) *cobra.Command {
	return apiCall{
		use: "audit", short: "List what operators changed, the newest first",
		long: "List what operators changed, the newest first: who, what, when, and what came of it; --json has the whole request. What was changed while " +
			"the database was away is not here: the log of the server has it, as \"a change is missing in the audit log\".",
		method: http.MethodGet, path: below("audit"), list: true, many: true, columns: []string{"at", "actor", "action", "target", "outcome", "request_id"},
	}.command(getenv)
}
