package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/cases"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/serve"
)

// A triedCase is the result of a test case in JSON.
type triedCase struct {
	Name    string `json:"name"`
	Line    int    `json:"line"` // of the failed expectation, else of the case
	OK      bool   `json:"ok"`
	Failure string `json:"failure,omitempty"`
}

func testRulesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test FILE CASES", Short: "Test a rules file with example requests and expected decisions", Args: named,
		Long: `Run the example requests in CASES against a rules file, without a server and without waiting, and fail if a decision differs from the expected one.

  cases:
    - name: a guest searches 20 times a minute
      request: {ip: 192.0.2.1, route: /search}
      times: 20                      # all with the same expectation
      expect: allow                  # or deny, challenge, ban, invalid
      then:                          # the same request again
        - expect: {action: deny, rule: search, retry_after: 1m}
        - {wait: 1m, expect: allow}  # a minute later, on the clock of the case

A request has user, ip, device, session, route, method, tier, cost, solved: true, and attributes by name. An expectation has any of action, rule, ` +
			`reason, remaining and retry_after; the action invalid is that of an invalid request. Each case has its own counters and starts at noon of a Monday in UTC, ` +
			`or at the time given by at. Only the sections rules, lists and bans of the rules file are used.
The exit status is 1 if a case fails, and 2 if one of the files is invalid.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := serve.LoadRules(args[0])
			if err != nil {
				return err
			}
			all, err := cases.Load(args[1])
			if err != nil {
				return err
			}
			out, failed := cmd.OutOrStdout(), 0
			tried := make([]triedCase, len(all))
			for i := range all {
				c := &all[i]
				tried[i] = triedCase{Name: c.Name, Line: c.Line, OK: true}
				failure, err := c.Try(cmd.Context(), rules)
				if err != nil {
					return fmt.Errorf("%s:%d: case %s: %w", args[1], c.Line, c.Name, err)
				}
				if failure != nil {
					failed++
					tried[i] = triedCase{Name: c.Name, Line: failure.Line, Failure: failure.Text}
				}
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(map[string]any{"file": args[0], "version": rules.Version(), "cases": tried})
			} else {
				for _, c := range tried {
					if !c.OK {
						_, _ = fmt.Fprintf(out, "%s:%d: case %s: %s\n", args[1], c.Line, input.Harmless(c.Name), input.Harmless(c.Failure))
					}
				}
			}
			switch {
			case err != nil:
				return err
			case failed > 0:
				return finding{fmt.Errorf("%s: failed cases: %d of %d", args[1], failed, len(all))}
			case !asJSON:
				_, err = fmt.Fprintf(out, "%s: passed cases: %d\n", args[1], len(all))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
