package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/input"
)

func explainCommand(getenv func(string) string) *cobra.Command {
	query := url.Values{}
	return apiCall{
		use: "explain", short: "Show how each rule treats a request, without charging it",
		long: "Show how each rule in force treats a request: the use of each of its windows, or why it does not apply. Nothing is charged. " +
			"Request fields without a flag are empty.",
		example: "  tidegate explain --user ann --route /v1/sales/spring/orders --method POST\n" +
			"  tidegate explain --ip 192.0.2.1 --route /export --attribute plan:gold \\\n      --attribute rows:1200",
		method: http.MethodGet, path: below("explain"), query: func([]string) url.Values { return query }, show: showExplanation,
		flags: func(cmd *cobra.Command) {
			for _, f := range [][2]string{
				{"user", "signed-in user"},
				{"ip", "address of the client"},
				{"device", "device of the client"},
				{"session", "session of the client"},
				{"route", "path of the request, such as /v1/sales/spring/orders"},
				{"method", "method of the request, such as POST"},
				{"tier", "tier of the caller (default: registered with a user, anonymous without)"},
				{"cost", "units of the request (default: 1)"},
			} {
				cmd.Flags().Func(f[0], f[1], func(value string) error {
					query.Set(f[0], value)
					return nil
				})
			}
			cmd.Flags().Func("attribute", "attribute as NAME:VALUE; repeatable", func(value string) error {
				query.Add("attribute", value)
				return nil
			})
		},
	}.command(getenv)
}

// rowsOf returns one row for each window of a rule, or one for a rule without windows.
func rowsOf(s *admit.StandingView) (rows [][]string) {
	verdict := "yes"
	if !s.Applies {
		verdict = "no: " + s.Why
	}
	units := func(n *int) string {
		if n == nil {
			return "unlimited"
		}
		return fmt.Sprint(*n)
	}
	span := func(ms int64) string {
		if ms == 0 {
			return "-"
		}
		return (time.Duration(ms) * time.Millisecond).String()
	}
	for i, w := range s.Windows {
		would, name, applies := string(w.Action), s.Rule, verdict
		if i > 0 {
			name, applies = "", ""
		}
		if w.Shadow {
			would += " (shadow)"
		}
		limit, remaining := units(w.Limit), units(w.Remaining)
		if w.WindowMS == 0 { // a direct rule counts nothing
			limit, remaining = "-", "-"
		}
		rows = append(rows, []string{name, applies, would, limit, span(w.WindowMS), remaining, span(w.RetryAfterMS)})
	}
	if len(rows) == 0 {
		rows = [][]string{{s.Rule, verdict, "-", "-", "-", "-", "-"}}
	}
	return rows
}

func showExplanation(out io.Writer, _ []string, answer []byte, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", harmlessJSON(answer))
		return err
	}
	e, err := decoded[struct {
		admit.Explanation

		Ban map[string]any `json:"ban"` // with all fields
	}](answer)
	if err != nil {
		return err
	}
	if e.Ban != nil {
		fmt.Fprintf(out, "banned: %s\n\n", pairs(e.Ban))
	}
	if e.Allowed != "" {
		fmt.Fprintf(out, "never banned: on the list %s\n\n", input.Harmless(e.Allowed))
	}
	rows := [][]string{{"RULE", "APPLIES", "ACTION", "LIMIT", "WINDOW", "REMAINING", "RETRY AFTER"}}
	for i := range e.Rules {
		for _, row := range rowsOf(&e.Rules[i]) {
			for j := range row {
				row[j] = input.Harmless(row[j])
			}
			rows = append(rows, row)
		}
	}
	return writeTable(out, rows)
}
