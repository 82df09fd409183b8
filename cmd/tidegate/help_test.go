package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The help of every command fits into 80 columns, and the list of commands has each of them once, below the title of its group.
func TestHelp(t *testing.T) {
	program := program(nothing)
	program.InitDefaultCompletionCmd("x")
	commands := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		help, err := call(t, nothing, append(path, "--help")...)
		if err != nil || !strings.Contains(help, "\nUsage:\n  "+cmd.CommandPath()) {
			t.Errorf("%q: %v\n%s", path, err, help)
		}
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q: a line of %d columns: %s", path, n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			commands++
			if strings.Count(help, "\n  "+sub.Name()+" ") != 1 {
				t.Errorf("%q is not listed once in:\n%s", sub.CommandPath(), help)
			}
			visit(sub)
		}
	}
	visit(program)
	if commands < 60 {
		t.Errorf("%d commands", commands)
	}
	help, _ := call(t, nothing, "--help")
	at := 0
	for _, want := range []string{"\nSales:\n  audit ", "\n  orders ", "\nLimits:\n  bans ", "\nTrials:\n  demo ", "\nInstallation:\n  adopt ", "\n  completion ", "\nFlags:\n"} {
		found := strings.Index(help[at:], want)
		if found < 0 {
			t.Fatalf("%q is not where it should be in:\n%s", want, help)
		}
		at += found
	}
}
