package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/internal/serve"
)

func rulesCommand(getenv func(string) string) *cobra.Command {
	show := &cobra.Command{
		Use: "show", Short: "Print the built-in rules, which apply without RULES_FILE", Args: named,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(rules.Default().Source())
			return err
		},
	}
	reload := apiCall{
		use: "reload", short: "Reload the rules file of the server; an invalid file changes nothing", method: http.MethodPost,
		path: below("rules", "reload"), columns: []string{"version"},
	}
	return group("rules", "Show, check, test, compare and reload admission rules",
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
		Use: "check FILE", Short: "Check a rules file for errors and likely mistakes", Args: named,
		Long: "Check a rules file for errors and likely mistakes. The exit status is 1 for errors, and with --strict for warnings too, and 2 " +
			"if the file cannot be read.",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, out := args[0], cmd.OutOrStdout()
			set, err := serve.LoadRules(file)
			if unread := (*fs.PathError)(nil); err != nil && !errors.As(err, &unread) {
				return finding{err}
			}
			if err != nil {
				return err
			}
			warnings, wrong := []ruleWarning{}, 0
			known, whatever := proxies != "" || cmd.Flags().Changed("trusted-proxies"), serve.LintRules(set, true)
			for _, w := range serve.LintRules(set, proxies != "") {
				w.Note = w.Note || !known && !slices.Contains(whatever, w) // the servers may have trusted proxies
				warnings = append(warnings, ruleWarning{w.Rule, w.Line, w.Text, w.Note})
				if !w.Note {
					wrong++
				}
			}
			declared, err := semregistry.Declarations(set)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(declared, func(d semregistry.Declaration) bool { return d.Name == reports.Semaphore }) {
				b := semregistry.BuiltIn()[0]
				warnings = append(warnings, ruleWarning{
					Line: 1, Note: true,
					Text: fmt.Sprintf("the file does not declare the semaphore %s of orders.csv and "+
						"tidegate report, so the built-in definition applies: semaphores: {%s: {limit: %d, lease: %v}}", b.Name, b.Name, b.Limit, b.Lease),
				})
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(map[string]any{"file": file, "version": set.Version(), "warnings": warnings})
			} else {
				err = printWarnings(out, file, warnings)
			}
			if err == nil && strict && wrong > 0 {
				err = finding{fmt.Errorf("%s: warnings: %d", file, wrong)}
			}
			if err == nil && !asJSON {
				_, err = fmt.Fprintf(out, "%s: valid, version %s\n", file, set.Version())
			}
			return err
		},
	}
	check.Flags().BoolVar(&strict, "strict", false, "fail on warnings; notes are not warnings")
	check.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	check.Flags().StringVar(&proxies, "trusted-proxies", getenv("TRUSTED_PROXIES"),
		"TRUSTED_PROXIES of the servers; without it, rules that look at addresses get a note instead of a warning")
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
		if _, err := fmt.Fprintf(out, "%s:%d: %s: %s%s\n", file, w.Line, kind, rule, input.Harmless(w.Text)); err != nil {
			return err
		}
	}
	return nil
}

func fromKoalaCommand(getenv func(string) string) *cobra.Command {
	var zone string
	convert := &cobra.Command{
		Use:   "from-koala FILE",
		Short: "Convert a Koala rule file, or the one that a koala.conf names, to a rules file",
		Args:  named,
		RunE: func(cmd *cobra.Command, args []string) error {
			days, err := time.LoadLocation(zone)
			if err != nil || zone == "" || zone == "Local" {
				return fmt.Errorf("--zone must be a time zone such as Asia/Shanghai, Europe/Berlin or UTC, got %q", zone)
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
	convert.Flags().StringVar(&zone, "zone", cmp.Or(getenv("KOALA_ZONE"), koala.DefaultZone),
		"time zone in which counters of 86400 seconds start at midnight")
	return convert
}
