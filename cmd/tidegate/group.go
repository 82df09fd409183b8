package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// group returns a command that only contains subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions, DisableFlagsInUseLine: true,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
			}
			return fmt.Errorf("%s; %s --help lists the commands", text, cmd.CommandPath())
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// named requires as many arguments as the command's use names.
func named(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	right := strings.Join(append([]string{cmd.CommandPath()}, names...), " ")
	switch {
	case len(args) < len(names):
		return fmt.Errorf("%s is required; usage: %s", names[len(args)], right)
	case len(args) > len(names) && cmd.Flags().Lookup("name") != nil:
		return fmt.Errorf("unexpected argument %q; usage: %s --name %[1]s", args[len(names)], right)
	case len(args) > len(names):
		return fmt.Errorf("unexpected argument %q; usage: %s", args[len(names)], right)
	}
	return nil
}
