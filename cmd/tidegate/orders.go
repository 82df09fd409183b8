package main

import (
	"net/http"

	"github.com/spf13/cobra"
)

var orderColumns = []string{"order_id", "status", "reason", "sale", "item", "user", "quantity", "units", "accepted_at", "confirmed_at", "pay_before"}

func ordersCommand(getenv func(string) string) *cobra.Command {
	return calls(
		getenv, "orders", "Look at an order; list and replay those that the database refuses",
		apiCall{use: "show ID", short: "Show an order", method: http.MethodGet, path: below("orders"), columns: orderColumns},
		apiCall{
			use: "dead", short: "List accepted orders that the database refuses to hold, with its reasons",
			long: "List the dead letters: orders that were accepted and that the database refuses to hold, with its reasons. They keep their units and stay " +
				"accepted. Remove what the database refuses them for, then replay each.",
			method: http.MethodGet, path: below("orders", "dead"), list: true, columns: []string{"order_id", "refused_at", "sale", "item", "reason"},
		},
		apiCall{
			use: "replay ID", short: "Commit a dead letter after what made the database refuse it is gone", method: http.MethodPost,
			path: func(args []string) []string { return []string{"v1", "orders", "dead", args[0], "replay"} }, columns: orderColumns, complete: deadOrders,
		},
	)
}
