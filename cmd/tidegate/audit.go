package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

func auditCommand(getenv func(string) string) *cobra.Command {
	return apiCall{
		use: "audit", short: "List operators' changes, newest first",
		long: "List operators' changes, newest first: who, what, when, and the outcome; --json includes the whole request. Changes that were " +
			"made while the database was unavailable are missing here; the server logs them as \"a change is missing in the audit log\".",
		method: http.MethodGet, path: below("audit"), list: true, many: true,
		columns: []string{"at", "actor", "action", "target", "outcome", "request_id"},
	}.command(getenv)
}
