package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func ordersCommand(getenv func(string) string) *cobra.Command {
	cmd := &cobra.Command{Use: "orders", Short: "Look at an order; list and replay those that the database refuses"}
	cmd.AddCommand(showOrderCommand(getenv), deadOrdersCommand(getenv), replayOrderCommand(getenv))
	return cmd
}

// order is one as the internal API shows it.
type order struct {
	OrderID     string     `json:"order_id"`
	Status      string     `json:"status"`
	Sale        string     `json:"sale"`
	Item        string     `json:"item"`
	User        string     `json:"user"`
	Quantity    int        `json:"quantity"`
	Units       []int      `json:"units"`
	AcceptedAt  time.Time  `json:"accepted_at"`
	ConfirmedAt *time.Time `json:"confirmed_at"`
	PayBefore   *time.Time `json:"pay_before"`
	Reason      string     `json:"reason"`
}

func (o *order) write(out io.Writer) error {
	var text strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&text, "%-13s %v\n", name, value) }
	line("order", o.OrderID)
	status := o.Status
	if o.Reason != "" {
		status += ", " + o.Reason
	}
	line("status", status)
	line("sale, item", o.Sale+", "+o.Item)
	line("buyer", orElse(o.User, "not named"))
	line("quantity", o.Quantity)
	if len(o.Units) > 0 {
		line("units", strings.Trim(fmt.Sprint(o.Units), "[]"))
	}
	line("accepted", o.AcceptedAt.Format(time.RFC3339Nano))
	if o.ConfirmedAt != nil {
		line("confirmed", o.ConfirmedAt.Format(time.RFC3339Nano))
	}
	if o.PayBefore != nil {
		line("to be paid by", o.PayBefore.Format(time.RFC3339Nano))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func showOrderCommand(getenv func(string) string) *cobra.Command {
	return oneOrderCommand(getenv, "show ID", "Show an order", http.MethodGet, func(id string) []string { return []string{id} })
}

func replayOrderCommand(getenv func(string) string) *cobra.Command {
	return oneOrderCommand(getenv, "replay ID", "Commit a dead letter after what made the database refuse it is gone",
		http.MethodPost, func(id string) []string { return []string{"dead", id, "replay"} })
}

// oneOrderCommand asks the internal API for something below orders that it answers with an order.
func oneOrderCommand(getenv func(string) string, use, short, method string, path func(id string) []string) *cobra.Command {
	var api internalAPI
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o order
			if err := api.call(cmd.Context(), method, &o, append([]string{"v1", "orders"}, path(args[0])...)...); err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout())
		},
	}
	api.addFlags(cmd, getenv)
	return cmd
}

type deadLetter struct {
	OrderID   string    `json:"order_id"`
	Sale      string    `json:"sale"`
	Item      string    `json:"item"`
	RefusedAt time.Time `json:"refused_at"`
	Reason    string    `json:"reason"`
}

func deadOrdersCommand(getenv func(string) string) *cobra.Command {
	var (
		api    internalAPI
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List accepted orders that the database refuses to hold, with its reasons",
		Long: "List the dead letters: orders that were accepted and that the database refuses to hold, with its reasons. They keep their units and stay " +
			"accepted. Remove what the database refuses them for, then replay each.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := 0
			err := api.pages(cmd.Context(), func(line json.RawMessage) error {
				found++
				if asJSON {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
					return err
				}
				var d deadLetter
				if err := json.Unmarshal(line, &d); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s, %s  %s\n", d.OrderID, d.RefusedAt.Format(time.RFC3339), d.Sale, d.Item, d.Reason)
				return err
			}, "v1", "orders", "dead")
			if err == nil && found == 0 && !asJSON {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "no dead letters")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line, as the API has it")
	api.addFlags(cmd, getenv)
	return cmd
}

// pages calls fn for each item of a list, page by page.
func (a *internalAPI) pages(ctx context.Context, fn func(json.RawMessage) error, path ...string) error {
	for cursor := ""; ; {
		var page struct {
			Items []json.RawMessage
			Next  string `json:"next_cursor"`
		}
		query := url.Values{"limit": {"1000"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if err := a.ask(ctx, http.MethodGet, query, &page, path...); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := fn(item); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
