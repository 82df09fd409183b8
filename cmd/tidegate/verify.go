package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/input"
)

func verifyCommand(getenv func(string) string) *cobra.Command {
	return apiCall{
		use: "verify SALE", short: "Verify the invariants of a sale",
		long: "Have the server verify the invariants of a sale. Nothing is changed. Operations in progress do not count as breaches, and a " +
			"breach is reported only if three consecutive checks find it.\nThe exit status is 1 if an invariant is broken, and 2 if there was " +
			"no answer or the server could not verify the invariants.",
		method: http.MethodGet, path: func(args []string) []string { return []string{"v1", "sales", args[0], "verify"} },
		show: showChecks, complete: saleNames,
	}.command(getenv)
}

func showChecks(out io.Writer, _ []string, answer []byte, asJSON bool) error {
	var verdict sales.Verification
	if err := json.Unmarshal(answer, &verdict); err != nil {
		return fmt.Errorf("unexpected response: %w", err)
	}
	if asJSON {
		fmt.Fprintf(out, "%s\n", harmlessJSON(answer))
	} else {
		width := 4
		for _, check := range verdict.Checks {
			width = max(width, len(check.Invariant))
		}
		for _, check := range verdict.Checks {
			word := "ok"
			if !check.OK {
				word = "BREACH"
			}
			fmt.Fprintf(out, "%-*s %-7s %s\n", width, input.Harmless(check.Invariant), word, input.Harmless(check.Detail))
			if check.Advice != "" {
				fmt.Fprintf(out, "%-*s %-7s %s\n", width, "", "do:", input.Harmless(check.Advice))
			}
		}
	}
	if !verdict.OK {
		return finding{errors.New("an invariant is broken: keep the logs and the database unchanged, and follow the advice above")}
	}
	return nil
}
