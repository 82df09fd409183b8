package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

var orderColumns = []string{"order_id", "status", "reason", "sale", "item", "user", "quantity", "units", "accepted_at", "confirmed_at", "pay_before"}

func ordersCommand(getenv func(string) string) *cobra.Command {
	only := url.Values{} // query of list
	filter := func(cmd *cobra.Command, name, usage string) {
		cmd.Flags().Func(name, usage, func(value string) error {
			only.Set(name, value)
			return nil
		})
	}
	cmd := calls(
		getenv, "orders", "List, show and cancel orders; list and replay dead letters",
		apiCall{
			use: "list SALE", short: "List the orders of a sale, oldest first", method: http.MethodGet, list: true, many: true, complete: saleNames,
			path:    func(args []string) []string { return []string{"v1", "sales", args[0], "orders"} },
			query:   func([]string) url.Values { return only },
			columns: []string{"order_id", "status", "item", "user", "quantity", "units", "accepted_at"},
			example: "  tidegate orders list spring --user ann\n  tidegate orders list spring --status confirmed --limit 0 --json",
			flags: func(cmd *cobra.Command) {
				filter(cmd, "user", "only orders of this user")
				filter(cmd, "status", "only orders with this status: accepted, confirmed, paid, cancelled, expired or rejected")
				_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(
					[]string{"accepted", "confirmed", "paid", "cancelled", "expired", "rejected"}, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
			},
		},
		apiCall{use: "show ID", short: "Show an order", method: http.MethodGet, path: below("orders"), columns: orderColumns},
		apiCall{
			use: "cancel ID", short: "Cancel an unpaid order and put its units back on sale", method: http.MethodPost, columns: orderColumns,
			path: func(args []string) []string { return []string{"v1", "orders", args[0], "cancel"} }, ask: cancelQuestion,
		},
		apiCall{
			use: "dead", short: "List dead letters: accepted orders that the database refuses",
			long: "List the dead letters: accepted orders that the database refuses, with its reasons. They stay accepted and keep their units. " +
				"Remove the cause, then replay them.",
			method: http.MethodGet, path: below("orders", "dead"), list: true, columns: []string{"order_id", "refused_at", "sale", "item", "reason"},
		},
	)
	cmd.AddCommand(replayCommand(getenv))
	return cmd
}

// cancelQuestion describes the order to be cancelled. For a finished order it asks nothing; the server refuses and says why.
func cancelQuestion(ctx context.Context, api *internalAPI, args []string) (string, error) {
	var o struct {
		Status, Sale, Item, User string
		Quantity                 int
	}
	if err := api.call(ctx, http.MethodGet, &o, "v1", "orders", args[0]); err != nil {
		return "", err
	}
	if o.Status != "accepted" && o.Status != "confirmed" {
		return "", nil
	}
	whose := ""
	if o.User != "" {
		whose = " of " + o.User
	}
	return fmt.Sprintf("Cancel the order%s for %d %s in %s, which is %s?", whose, o.Quantity, o.Item, o.Sale, o.Status), nil
}
