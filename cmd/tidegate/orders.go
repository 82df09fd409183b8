package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

var orderColumns = []string{
	"order_id", "status", "reason", "sale", "item", "user", "quantity", "units", "accepted_at", "confirmed_at",
	"pay_before",
}

func ordersCommand(getenv func(string) string) *cobra.Command {
	only := url.Values{} // query of list
	refunds := false
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
			example: "  tidegate orders list spring --user ann\n  tidegate orders list spring --status confirmed --limit 0 --json\n  tidegate " +
				"orders list spring --refunds",
			instead: func() *apiCall {
				if refunds {
					return refundsOf(only)
				}
				return nil
			},
			flags: func(cmd *cobra.Command) {
				cmd.Flags().BoolVar(&refunds, "refunds", false,
					"list the captured payments that are to be refunded, with their references; --json prints their events")
				filter(cmd, "user", "only orders of this user")
				filter(cmd, "status", "only orders with this status: accepted, confirmed, paid, cancelled, expired or rejected")
				_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(
					// fails only for an unknown flag
					[]string{"accepted", "confirmed", "paid", "cancelled", "expired", "rejected"}, cobra.ShellCompDirectiveNoFileComp))
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

// refundsOf lists the payments of a sale that are to be refunded. They are in the feed of all changes, which is read from the beginning.
func refundsOf(only url.Values) *apiCall {
	return &apiCall{
		list: true, columns: []string{"order_id", "status", "item", "user", "quantity", "reference", "at"}, complete: saleNames,
		source: func(ctx context.Context, api *internalAPI, _ url.Values, args []string, fn func(json.RawMessage) error) error {
			none := true
			err := api.feed(ctx, func(event json.RawMessage) error {
				e, err := decoded[sales.EventView](event)
				if err != nil || e.Action != orders.ActionRefund || e.Sale != args[0] ||
					only.Has("user") && e.User != only.Get("user") || only.Has("status") && string(e.Status) != only.Get("status") {
					return err
				}
				none = false
				return fn(event)
			})
			if err == nil && none {
				_, err = api.send(ctx, http.MethodGet, nil, nil, "v1", "sales", args[0]) // it may not exist
			}
			return err
		},
	}
}

// feed calls fn for each event of the feed that exists.
func (a *internalAPI) feed(ctx context.Context, fn func(event json.RawMessage) error) error {
	const limit = 1000
	query := url.Values{"after": {"0"}, "limit": {strconv.Itoa(limit)}}
	for {
		part, err := ask[response.Page[json.RawMessage]](ctx, a, http.MethodGet, query, nil, "v1", "order-events")
		if err != nil {
			return err
		}
		for _, event := range part.Items {
			if err := fn(event); err != nil {
				return err
			}
		}
		if len(part.Items) < limit || part.NextCursor == nil {
			return nil
		}
		query.Set("after", *part.NextCursor)
	}
}

// cancelQuestion describes the order to be cancelled. For a finished order it asks nothing; the server refuses with a reason.
func cancelQuestion(ctx context.Context, api *internalAPI, args []string) (string, error) {
	o, err := ask[sales.OrderView](ctx, api, http.MethodGet, nil, nil, "v1", "orders", args[0])
	if err != nil {
		return "", err
	}
	if o.Status != orders.StatusAccepted && o.Status != orders.StatusConfirmed {
		return "", nil
	}
	whose := ""
	if o.User != "" {
		whose = " of " + o.User
	}
	return fmt.Sprintf("Cancel the order%s for %d %s in %s, which is %s?", whose, o.Quantity, o.Item, o.Sale, o.Status), nil
}
