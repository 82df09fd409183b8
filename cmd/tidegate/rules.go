package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/koala"
)

func rulesCommand(getenv func(string) string) *cobra.Command {
	rules := &cobra.Command{Use: "rules", Short: "Show the built-in admission rules, or check a file of your own"}
	rules.AddCommand(&cobra.Command{
		Use:   "show",
		Short: "Print the rules that apply without RULES_FILE",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(admission.DefaultRules().Source())
			return err
		},
	}, checkRulesCommand(getenv), fromKoalaCommand(getenv))
	return rules
}

func checkRulesCommand(getenv func(string) string) *cobra.Command {
	var (
		strict  bool
		proxies string
	)
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a rules file is right, where it is not, and what in it is probably not meant",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, out := args[0], cmd.OutOrStdout()
			rules, err := admission.LoadRules(file)
			if err != nil {
				return err
			}
			warnings := admission.Lint(rules, proxies != "")
			for _, w := range warnings {
				rule := ""
				if w.Rule != "" {
					rule = "rule " + w.Rule + ": "
				}
				if _, err := fmt.Fprintf(out, "%s:%d: warning: %s%s\n", file, w.Line, rule, w.Text); err != nil {
					return err
				}
			}
			if strict && len(warnings) > 0 {
				return fmt.Errorf("%s: warnings: %d", file, len(warnings))
			}
			_, err = fmt.Fprintf(out, "%s: right, version %s\n", file, rules.Version())
			return err
		},
	}
	check.Flags().BoolVar(&strict, "strict", false, "fail if there are warnings")
	check.Flags().StringVar(&proxies, "trusted-proxies", getenv("TRUSTED_PROXIES"), "the proxies that the servers trust, as in TRUSTED_PROXIES")
	return check
}

func fromKoalaCommand(getenv func(string) string) *cobra.Command {
	var zone string
	convert := &cobra.Command{
		Use:   "from-koala FILE",
		Short: "Print the rules file that decides as a rule file of Koala's, or the one that a koala.conf names",
		Args:  cobra.ExactArgs(1),
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
