package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/admission"
)

func rulesCommand() *cobra.Command {
	rules := &cobra.Command{Use: "rules", Short: "Show the built-in admission rules, or check a file of your own"}
	rules.AddCommand(&cobra.Command{
		Use:   "show",
		Short: "Print the rules that apply without RULES_FILE",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(admission.DefaultRules().Source())
			return err
		},
	}, &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a rules file is right, and where it is not",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			rules, err := admission.ParseRules(args[0], source)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: right, version %s\n", args[0], rules.Version())
			return err
		},
	})
	return rules
}
