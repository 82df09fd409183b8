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

var (
	saleColumns  = []string{"sale", "state", "starts_at", "ends_at", "items"}
	saleInDetail = []string{"sale", "state", "switch", "starts_at", "ends_at", "requires_user", "hold_ms", "items"}
)

func salesCommand(getenv func(string) string) *cobra.Command {
	var def saleDefinition
	verb := func(name, short string, ask question) apiCall {
		return apiCall{
			use: name + " SALE", short: short, method: http.MethodPost, columns: saleInDetail, amend: sayDraft, complete: saleNames, ask: ask,
			path: func(args []string) []string { return []string{"v1", "sales", args[0], name} },
		}
	}
	return calls(
		getenv, "sales", "List, define, open, pause and close sales",
		apiCall{use: "list", short: "List all sales", method: http.MethodGet, path: below("sales"), list: true, columns: saleColumns, amend: sayDraft},
		apiCall{ // the buyers' view of a sale has fewer fields, so the sale is picked from the list
			use: "show SALE", short: "Show a sale", method: http.MethodGet, path: func([]string) []string { return []string{"v1", "sales"} },
			list: true, pick: true, columns: saleInDetail, amend: sayDraft, complete: saleNames,
		},
		apiCall{
			use: "create SALE", short: "Define a sale, or change it: hours move, stock only grows", method: http.MethodPut,
			long:    "Define a sale, or change it. It takes orders once it is opened, within its hours. Of a sale that there is already, what the flags do not say is set anew, too.",
			example: "  tidegate sales create summer --item ticket=500 --item poster=2000:5 --starts 2026-12-01T20:00:00Z --lasts 1h",
			path:    below("sales"), columns: saleInDetail, amend: sayDraft, flags: def.flags, body: def.body, ask: changing,
		},
		verb("open", "Publish a sale, or resume it; its hours still apply", nil),
		verb("pause", "Take no orders until the sale is opened again", nil),
		verb("close", "End a sale for good", func(_ context.Context, _ *internalAPI, args []string) (string, error) {
			return "Close " + args[0] + " for good? It cannot be opened again.", nil
		}),
		apiCall{
			use: "stock SALE ITEM=+UNITS", short: "Put more units of an item on sale", method: http.MethodPut, columns: saleInDetail, amend: sayDraft, body: moreStock, again: true,
			example: "  tidegate sales stock summer ticket=+100",
			path:    func(args []string) []string { return []string{"v1", "sales", args[0]} }, complete: append(saleNames[:1:1], itemsToStock),
		},
	)
}

// sayDraft sets the state of a draft to "draft". The API calls it "scheduled", although it does not open by itself.
func sayDraft(sale map[string]any) {
	if sale["switch"] == "draft" {
		sale["state"] = "draft"
	}
}

// A saleDefinition is the definition of a sale by flags.
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

// changing asks for confirmation if the sale already exists.
func changing(ctx context.Context, api *internalAPI, args []string) (string, error) {
	switch _, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "sales", args[0]); {
	case err == nil:
		return "There is a sale " + args[0] + ". Set its hours, time to pay and quotas anew, also those that no flag names?", nil
	case !hasStatus(err, http.StatusNotFound):
		return "", err
	}
	return "", nil
}

type saleItem struct {
	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Quota int    `json:"quota_per_buyer,omitempty"`
	Most  int    `json:"in_flight_max,omitempty"`
}

func (d *saleDefinition) body(context.Context, *internalAPI, []string) (any, error) {
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
	return definition{StartsAt: starts.UTC(), EndsAt: ends.UTC(), RequiresUser: !d.anonymous, HoldMS: d.hold.Milliseconds(), Items: items}, nil
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

// moreStock returns the sale's definition with more units of an item.
func moreStock(ctx context.Context, api *internalAPI, args []string) (any, error) {
	name, more, ok := strings.Cut(args[1], toContinue)
	units, err := strconv.Atoi(more)
	if !ok || err != nil || units < 1 {
		return nil, fmt.Errorf("%q should be such as ticket=+100: stock only grows", args[1])
	}
	sale, err := api.sale(ctx, args[0])
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range sale.Items {
		if it := &sale.Items[i]; it.Item == name {
			it.Stock += units
			return sale.definition, nil
		}
		names = append(names, sale.Items[i].Item)
	}
	return nil, fmt.Errorf("sale %s has no item %q%s", args[0], name, thereAre(names))
}

// A definition is the body of PUT for a sale. It must be complete, because missing fields are set to their defaults.
type definition struct {
	StartsAt     time.Time  `json:"starts_at"`
	EndsAt       time.Time  `json:"ends_at"`
	RequiresUser bool       `json:"requires_user"`
	HoldMS       int64      `json:"hold_ms"`
	Items        []saleItem `json:"items"`
	Revision     int64      `json:"revision,omitempty"` // revision that it is based on; 0: none
}

type operatorSale struct {
	Sale string `json:"sale"`
	definition
}

// sale returns a sale from the operator's list, because the buyers' view has fewer fields.
func (a *internalAPI) sale(ctx context.Context, name string) (found operatorSale, err error) {
	var names []string
	err = a.pages(ctx, nil, func(item json.RawMessage) error {
		var sale operatorSale
		if err := json.Unmarshal(item, &sale); err != nil {
			return err
		}
		if names = append(names, sale.Sale); sale.Sale == name {
			found = sale
		}
		return nil
	}, "v1", "sales")
	if err == nil && found.Sale == "" {
		err = fmt.Errorf("there is no sale %q%s", name, thereAre(names))
	}
	return found, err
}
