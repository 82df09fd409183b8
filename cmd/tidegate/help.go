package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpColumns is the width of help texts.
const helpColumns = 80

// showHelp prints the help of a command.
func showHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") { // not a file or a command
			line = wrapped(line, 0)
		}
		fmt.Fprintln(out, line)
	}
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(out, "\nUsage:\n  %s\n", usage)
	if cmd.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		listCommands(out, cmd, g.ID, g.Title)
	}
	listCommands(out, cmd, "", "Commands:")
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(out, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpColumns))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\n%s COMMAND --help describes a command.\n", cmd.CommandPath())
	}
}

// listCommands prints the subcommands of a group with what they do.
func listCommands(out io.Writer, cmd *cobra.Command, group, title string) {
	for _, c := range cmd.Commands() {
		if c.GroupID != group || !c.IsAvailableCommand() {
			continue
		}
		if title != "" {
			fmt.Fprintf(out, "\n%s\n", title)
			title = ""
		}
		names := cmd.Commands()[0].NamePadding()
		fmt.Fprintf(out, "  %-*s %s\n", names, c.Name(), wrapped(c.Short, names+3))
	}
}

// wrapped breaks a text into lines that fit beside an indentation, with which all lines but the first begin.
func wrapped(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > helpColumns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
