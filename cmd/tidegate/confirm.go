package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/input"
)

// confirm asks on a terminal before an irreversible operation. Without a terminal --yes is required.
func confirm(cmd *cobra.Command, question string) error {
	question = input.Harmless(question)
	if !isTerminal(cmd.InOrStdin()) {
		return fmt.Errorf("%s stdin is not a terminal; pass --yes to confirm", question)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer := make(chan string, 1) // reading a terminal cannot be interrupted, but Ctrl-C must end the wait
	go func() {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // incomplete input is not a yes
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	case <-cmd.Context().Done():
		return fmt.Errorf("%w; nothing was changed", context.Cause(cmd.Context()))
	}
	return errors.New("nothing was changed")
}

func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(f.Fd())
}
