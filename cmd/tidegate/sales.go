package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var saleColumns = []string{"sale", "state", "starts_at", "ends_at", "items"}

func salesCommand(getenv func(string) string) *cobra.Command {
	var def saleDefinition
	verb := func(name, short string) apiCall {
		return apiCall{
			use: name + " SALE", short: short, args: 1, method: http.MethodPost, columns: saleColumns,
			path: func(args []string) []string { return []string{"v1", "sales", args[0], name} },
		}
	}
	cmd := group(getenv, "sales", "List, define, open, pause and close sales",
		apiCall{use: "list", short: "List all sales", method: http.MethodGet, path: below("sales"), columns: saleColumns},
		apiCall{use: "show SALE", short: "Show a sale", args: 1, method: http.MethodGet, path: below("sales"), columns: saleColumns},
		apiCall{
			use: "create SALE", short: "Define a sale, or change it: hours move, stock only grows", args: 1, method: http.MethodPut,
			long: "Define a sale, or change it. It takes orders once it is opened, within its hours.\n\n" +
				"  tidegate sales create summer --item ticket=500 --item poster=2000:5 --starts 2026-12-01T20:00:00Z --lasts 1h",
			path: below("sales"), columns: saleColumns, flags: def.flags, body: def.body,
		},
		verb("open", "Publish a sale, or resume it; its hours still apply"),
		verb("pause", "Take no orders until the sale is opened again"),
		verb("close", "End a sale for good"),
	)
	cmd.AddCommand(stockCommand(getenv))
	return cmd
}

// A saleDefinition is what flags say of a sale.
type saleDefinition struct {
	items        []string
	starts, ends string
	lasts, hold  time.Duration
	anonymous    bool
}

func (d *saleDefinition) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&d.items, "item", nil, "NAME=STOCK, or NAME=STOCK:QUOTA for what a buyer may hold at most (default 1); as often as there are")
	f.StringVar(&d.starts, "starts", "", "when it begins, such as 2026-12-01T20:00:00Z (default: now)")
	f.StringVar(&d.ends, "ends", "", "when it ends")
	f.DurationVar(&d.lasts, "lasts", 0, "how long it lasts, instead of --ends")
	f.DurationVar(&d.hold, "hold", 15*time.Minute, "time to pay; 0: a confirmed order is final")
	f.BoolVar(&d.anonymous, "anonymous", false, "take orders of callers whose user is not known")
}

type saleItem struct {
	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Quota int    `json:"quota_per_buyer,omitempty"`
	Most  int    `json:"in_flight_max,omitempty"`
}

func (d *saleDefinition) body([]string) (any, error) {
	starts := time.Now()
	var err error
	if d.starts != "" {
		if starts, err = time.Parse(time.RFC3339, d.starts); err != nil {
			return nil, fmt.Errorf("--starts is %q, should be such as 2026-12-01T20:00:00Z", d.starts)
		}
	}
	ends := starts.Add(d.lasts)
	switch {
	case (d.ends == "") == (d.lasts == 0):
		return nil, errors.New("give either --ends or --lasts, such as --lasts 1h")
	case d.ends != "":
		if ends, err = time.Parse(time.RFC3339, d.ends); err != nil {
			return nil, fmt.Errorf("--ends is %q, should be such as 2026-12-01T21:00:00Z", d.ends)
		}
	}
	if len(d.items) == 0 {
		return nil, errors.New("a sale needs items, such as --item ticket=500")
	}
	items := make([]saleItem, len(d.items))
	for i, text := range d.items {
		if items[i], err = parseItem(text); err != nil {
			return nil, err
		}
	}
	return map[string]any{
		"starts_at": starts.UTC(), "ends_at": ends.UTC(), "requires_user": !d.anonymous, "hold_ms": d.hold.Milliseconds(), "items": items,
	}, nil
}

func parseItem(text string) (it saleItem, err error) {
	name, numbers, ok := strings.Cut(text, "=")
	stock, quota, limited := strings.Cut(numbers, ":")
	it.Item = name
	if it.Stock, err = strconv.Atoi(stock); err != nil || !ok || name == "" || it.Stock < 0 {
		return it, fmt.Errorf("--item is %q, should be NAME=STOCK such as ticket=500, or NAME=STOCK:QUOTA", text)
	}
	if limited {
		if it.Quota, err = strconv.Atoi(quota); err != nil || it.Quota < 1 {
			return it, fmt.Errorf("--item is %q, and the quota behind the colon should be a number from 1 on", text)
		}
	}
	return it, nil
}

// stockCommand adds units to an item.
func stockCommand(getenv func(string) string) *cobra.Command {
	var api internalAPI
	cmd := &cobra.Command{
		Use: "stock SALE ITEM=+UNITS", Short: "Put more units of an item on sale", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, more, ok := strings.Cut(args[1], "=+")
			units, err := strconv.Atoi(more)
			if !ok || err != nil || units < 1 {
				return fmt.Errorf("%q should be such as ticket=+100: stock only grows", args[1])
			}
			sale, err := api.sale(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			found := false
			for i := range sale.Items {
				if sale.Items[i].Item == name {
					sale.Items[i].Stock += units
					found = true
				}
			}
			if !found {
				return fmt.Errorf("sale %s has no item %q", args[0], name)
			}
			answer, err := api.send(cmd.Context(), http.MethodPut, nil, sale, "v1", "sales", args[0])
			if err != nil {
				return err
			}
			return apiCall{columns: saleColumns}.print(cmd.OutOrStdout(), answer, false)
		},
	}
	api.addFlags(cmd, getenv)
	return cmd
}

// An operatorSale is what PUT takes of a sale.
type operatorSale struct {
	Sale         string     `json:"sale"`
	StartsAt     time.Time  `json:"starts_at"`
	EndsAt       time.Time  `json:"ends_at"`
	RequiresUser bool       `json:"requires_user"`
	HoldMS       int64      `json:"hold_ms"`
	Items        []saleItem `json:"items"`
}

// sale finds a sale among those of the operator's list: the page that buyers see says less.
func (a *internalAPI) sale(ctx context.Context, name string) (found operatorSale, err error) {
	err = a.pages(ctx, func(item json.RawMessage) error {
		var sale operatorSale
		if err := json.Unmarshal(item, &sale); err != nil {
			return err
		}
		if sale.Sale == name {
			found = sale
		}
		return nil
	}, "v1", "sales")
	if err == nil && found.Sale == "" {
		err = fmt.Errorf("there is no sale %q; tidegate sales list names them", name)
	}
	return found, err
}
