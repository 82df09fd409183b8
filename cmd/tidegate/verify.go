package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

func verifyCommand(getenv func(string) string) *cobra.Command {
	var (
		api  internalAPI
		sale string
	)
	cmd := &cobra.Command{
		Use:   "verify SALE",
		Short: "Ask the server whether a sale's invariants hold; nothing is changed",
		Long: "Ask the server whether a sale's invariants hold. Nothing is changed. What is under way is no breach, and a breach was seen three times. " +
			"Ends with status 1 if there is one, and with 1 also if the server could not tell.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && sale != "" && sale != args[0]:
				return fmt.Errorf("--sale %s: the sale is %s already; name it once", sale, args[0])
			case len(args) == 1:
				sale = args[0]
			case sale == "":
				return errors.New("which sale? name it: tidegate verify SALE")
			}
			var verdict struct {
				OK     bool
				Checks []struct {
					Invariant      string
					OK             bool
					Detail, Advice string
				}
			}
			if err := api.call(cmd.Context(), http.MethodGet, &verdict, "v1", "sales", sale, "verify"); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, check := range verdict.Checks {
				word := "ok"
				if !check.OK {
					word = "BREACH"
				}
				fmt.Fprintf(out, "%-4s %-7s %s\n", check.Invariant, word, check.Detail)
				if check.Advice != "" {
					fmt.Fprintf(out, "%-4s %-7s %s\n", "", "do:", check.Advice)
				}
			}
			if !verdict.OK {
				return errors.New("an invariant is broken: keep the logs and the database as they are, and do as advised above")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&sale, "sale", "", "the sale")
	_ = cmd.Flags().MarkHidden("sale") // as it was called before; it exists
	api.addFlags(cmd, getenv)
	return cmd
}
