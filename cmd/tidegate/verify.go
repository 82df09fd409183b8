package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func verifyCommand(getenv func(string) string) *cobra.Command {
	return apiCall{
		use: "verify SALE", short: "Ask the server whether a sale's invariants hold; nothing is changed",
		long: "Ask the server whether a sale's invariants hold. Nothing is changed. What is under way is no breach, and a breach was seen three times. " +
			"Ends with status 1 if there is one, and with 1 also if the server could not tell.",
		method: http.MethodGet, path: func(args []string) []string { return []string{"v1", "sales", args[0], "verify"} },
		show: showChecks, complete: saleNames,
	}.command(getenv)
}

func showChecks(out io.Writer, _ []string, answer []byte, asJSON bool) error {
	var verdict struct {
		OK     bool
		Checks []struct {
			Invariant      string
			OK             bool
			Detail, Advice string
		}
	}
	if err := json.Unmarshal(answer, &verdict); err != nil {
		return fmt.Errorf("the answer is something else than expected: %w", err)
	}
	if asJSON {
		fmt.Fprintf(out, "%s\n", harmlessJSON(answer))
	} else {
		for _, check := range verdict.Checks {
			word := "ok"
			if !check.OK {
				word = "BREACH"
			}
			fmt.Fprintf(out, "%-4s %-7s %s\n", harmless(check.Invariant), word, harmless(check.Detail))
			if check.Advice != "" {
				fmt.Fprintf(out, "%-4s %-7s %s\n", "", "do:", harmless(check.Advice))
			}
		}
	}
	if !verdict.OK {
		return errors.New("an invariant is broken: keep the logs and the database as they are, and do as advised above")
	}
	return nil
}
