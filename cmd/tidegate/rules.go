package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/koala"
	"github.com/tidegate/tidegate/internal/reports"
)

func rulesCommand(getenv func(string) string) *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Print the rules that apply without RULES_FILE", Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(admission.DefaultRules().Source())
			return err
		},
	}
	reload := apiCall{
		use: "reload", short: "Put the rules file of the server, as it is now, into force; a wrong one changes nothing", method: http.MethodPost,
		path: below("rules", "reload"), columns: []string{"version"},
	}
	return group("rules", "Show the built-in admission rules, check and test a file of your own, compare it with the rules in force",
		show, checkRulesCommand(getenv), testRulesCommand(), diffRules.command(getenv), reload.command(getenv), fromKoalaCommand(getenv))
}

// A ruleWarning is a Warning of Lint in JSON.
type ruleWarning struct {
	Rule string `json:"rule,omitempty"`
	Line int    `json:"line"`
	Text string `json:"text"`
	Note bool   `json:"note,omitempty"` // for information only
}

func checkRulesCommand(getenv func(string) string) *cobra.Command {
	var (
		strict, asJSON bool
		proxies        string
	)
	check := &cobra.Command{
		Use: "check FILE", Short: "Say whether a rules file is right, where it is not, and what in it is probably not meant", Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, out := args[0], cmd.OutOrStdout()
			rules, err := admission.LoadRules(file)
			if err != nil {
				return err
			}
			warnings, wrong := []ruleWarning{}, 0
			for _, w := range admission.Lint(rules, proxies != "") {
				warnings = append(warnings, ruleWarning{w.Rule, w.Line, w.Text, w.Note})
				if !w.Note {
					wrong++
				}
			}
			if !slices.ContainsFunc(rules.Semaphores(), func(s admission.SemaphoreRule) bool { return s.Name == reports.Semaphore }) {
				b := reports.BuiltIn()[0]
				warnings = append(warnings, ruleWarning{Line: 1, Note: true, Text: fmt.Sprintf("the file does not declare the semaphore %s, so the built-in "+
					"one applies, semaphores: {%s: {limit: %d, lease: %v}}: orders.csv and tidegate report take it", b.Name, b.Name, b.Limit, b.Lease)})
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(map[string]any{"file": file, "version": rules.Version(), "warnings": warnings})
			} else {
				err = printWarnings(out, file, warnings)
			}
			if err == nil && strict && wrong > 0 {
				err = fmt.Errorf("%s: warnings: %d", file, wrong)
			}
			if err == nil && !asJSON {
				_, err = fmt.Fprintf(out, "%s: right, version %s\n", file, rules.Version())
			}
			return err
		},
	}
	check.Flags().BoolVar(&strict, "strict", false, "fail if there are warnings; notes are none")
	check.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	check.Flags().StringVar(&proxies, "trusted-proxies", getenv("TRUSTED_PROXIES"), "the proxies that the servers trust, as in TRUSTED_PROXIES")
	return check
}

func printWarnings(out io.Writer, file string, warnings []ruleWarning) error {
	for _, w := range warnings {
		kind, rule := "warning", ""
		if w.Note {
			kind = "note"
		}
		if w.Rule != "" {
			rule = "rule " + w.Rule + ": "
		}
		if _, err := fmt.Fprintf(out, "%s:%d: %s: %s%s\n", file, w.Line, kind, rule, harmless(w.Text)); err != nil {
			return err
		}
	}
	return nil
}

func fromKoalaCommand(getenv func(string) string) *cobra.Command {
	var zone string
	convert := &cobra.Command{
		Use:   "from-koala FILE",
		Short: "Print the rules file that decides as a rule file of Koala's, or the one that a koala.conf names",
		Args:  named,
		RunE: func(cmd *cobra.Command, args []string) error {
			days, err := time.LoadLocation(zone)
			if err != nil || zone == "" || zone == "Local" {
				return fmt.Errorf("--zone is %q, should be a name such as Asia/Shanghai, Europe/Berlin or UTC", zone)
			}
			yaml, warnings, err := koala.Convert(args[0], days)
			if err != nil {
				return err
			}
			for _, text := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), text)
			}
			_, err = cmd.OutOrStdout().Write(yaml)
			return err
		},
	}
	convert.Flags().StringVar(&zone, "zone", cmp.Or(getenv("KOALA_ZONE"), koala.DefaultZone), "time zone in which a counter of 86400 seconds begins at midnight")
	return convert
}
