package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/orders"
)

var (
	saleColumns  = []string{"sale", "state", "switch", "starts_at", "ends_at", "items"}
	saleInDetail = columnsOf[sales.OperatorSale]("now", "revision")
)

func salesCommand(getenv func(string) string) *cobra.Command {
	var def saleDefinition
	verb := func(name, short string, ask question) apiCall {
		return apiCall{
			use: name + " SALE", short: short, method: http.MethodPost, columns: saleInDetail, complete: saleNames, ask: ask,
			path: func(args []string) []string { return []string{"v1", "sales", args[0], name} },
		}
	}
	cmd := calls(
		getenv, "sales", "List, define, edit, fill, open, pause, close and rebuild sales",
		apiCall{use: "list", short: "List all sales", method: http.MethodGet, path: below("sales"), list: true, columns: saleColumns},
		apiCall{ // the buyers' view of a sale has fewer fields, so the sale is picked from the list
			use: "show SALE", short: "Show a sale", method: http.MethodGet, path: func([]string) []string { return []string{"v1", "sales"} },
			list: true, pick: true, columns: saleInDetail, complete: saleNames,
		},
		apiCall{
			use: "create SALE", short: "Create or change a sale; its stock can only grow", method: http.MethodPut,
			long: "Create or change a sale. It takes orders once it is opened, within its hours. When a sale is changed, settings without a " +
				"flag are reset to their defaults.",
			example: "  tidegate sales create summer --item ticket=500 --item poster=2000:5 \\\n      --starts 2026-12-01T20:00:00Z --lasts 1h",
			path:    below("sales"), columns: saleInDetail, flags: def.flags, body: def.body, ask: changing,
			query: func([]string) url.Values { return forceQuery(def.force) },
		},
		verb("open", "Open or resume a sale; its hours still apply", nil),
		verb("pause", "Pause a sale: no orders until it is opened again", nil),
		verb("close", "Close a sale permanently", func(_ context.Context, _ *internalAPI, args []string) (string, error) {
			return "Close " + args[0] + " permanently? It cannot be opened again.", nil
		}),
		verb("rebuild", "Rebuild a sale in Redis from the database; it takes no orders for a second or two",
			func(_ context.Context, _ *internalAPI, args []string) (string, error) {
				return "Rebuild " + args[0] + "? It takes no orders for a second or two.", nil
			}),
		apiCall{
			use: "stock SALE ITEM=+UNITS", short: "Add units of an item", method: http.MethodPut, columns: saleInDetail, body: moreStock,
			again:   true,
			example: "  tidegate sales stock summer ticket=+100",
			path:    func(args []string) []string { return []string{"v1", "sales", args[0]} }, complete: append(saleNames[:1:1], itemsToStock),
		},
	)
	cmd.AddCommand(editSaleCommand(getenv), importSaleCall().command(getenv))
	return cmd
}

// A saleDefinition is the definition of a sale by flags.
type saleDefinition struct {
	items        []string
	starts, ends string
	lasts, hold  time.Duration
	anonymous    bool
	final        bool
	force        bool
}

func (d *saleDefinition) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&d.items, "item", nil, "item as NAME=STOCK or NAME=STOCK:QUOTA, with the maximum units per buyer (default 1); repeatable")
	f.StringVar(&d.starts, "starts", "", "start time, such as 2026-12-01T20:00:00Z (default: now)")
	f.StringVar(&d.ends, "ends", "", "end time, such as 2026-12-01T21:00:00Z")
	f.DurationVar(&d.lasts, "lasts", 0, "length of the sale, instead of --ends")
	f.DurationVar(&d.hold, "hold", orders.DefaultHold, "time to pay; 0: confirmed orders are final")
	f.BoolVar(&d.anonymous, "anonymous", false, "accept orders without a user")
	f.BoolVar(&d.final, "final", false, "the items get no more stock, ever")
	addForceFlag(cmd, &d.force)
}

// changing asks for confirmation if the sale already exists.
func changing(ctx context.Context, api *internalAPI, args []string) (string, error) {
	switch _, err := api.send(ctx, http.MethodGet, nil, nil, "v1", "sales", args[0]); {
	case err == nil:
		return "Sale " + args[0] + " exists. Replace its hours, time to pay and quotas, including those without a flag?", nil
	case !apiclient.HasStatus(err, http.StatusNotFound):
		return "", err
	}
	return "", nil
}

func (d *saleDefinition) body(context.Context, *internalAPI, []string) (any, error) {
	starts := time.Now()
	var err error
	if d.starts != "" {
		if starts, err = time.Parse(time.RFC3339, d.starts); err != nil {
			return nil, fmt.Errorf("--starts must be a time such as 2026-12-01T20:00:00Z, got %q", d.starts)
		}
	}
	ends := starts.Add(d.lasts)
	switch {
	case (d.ends == "") == (d.lasts == 0):
		return nil, errors.New("either --ends or --lasts is required, such as --lasts 1h")
	case d.ends != "":
		if ends, err = time.Parse(time.RFC3339, d.ends); err != nil {
			return nil, fmt.Errorf("--ends must be a time such as 2026-12-01T21:00:00Z, got %q", d.ends)
		}
	}
	if len(d.items) == 0 {
		return nil, errors.New("--item is required, such as --item ticket=500")
	}
	items := make([]sales.ItemDefinition, len(d.items))
	for i, text := range d.items {
		if items[i], err = parseItem(text); err != nil {
			return nil, err
		}
		items[i].Final = d.final
	}
	return sales.SaleDefinition{
		StartsAt: starts.UTC(), EndsAt: ends.UTC(), RequiresUser: new(!d.anonymous), HoldMS: new(d.hold.Milliseconds()), Items: items,
	}, nil
}

func parseItem(text string) (it sales.ItemDefinition, err error) {
	name, numbers, ok := strings.Cut(text, "=")
	stock, quota, limited := strings.Cut(numbers, ":")
	it.Item = name
	if it.Stock, err = strconv.Atoi(stock); err != nil || !ok || name == "" || it.Stock < 0 {
		return it, fmt.Errorf("--item must be NAME=STOCK such as ticket=500, or NAME=STOCK:QUOTA, got %q", text)
	}
	if limited {
		if it.QuotaPerBuyer, err = strconv.Atoi(quota); err != nil || it.QuotaPerBuyer < 1 {
			return it, fmt.Errorf("--item must have a quota of 1 or more after the colon, got %q", text)
		}
	}
	return it, nil
}

// moreStock returns the sale's definition with more units of an item.
func moreStock(ctx context.Context, api *internalAPI, args []string) (any, error) {
	name, more, ok := strings.Cut(args[1], toContinue)
	units, err := strconv.Atoi(more)
	if !ok || err != nil || units < 1 {
		return nil, fmt.Errorf("ITEM=+UNITS must be like ticket=+100, because stock can only grow, got %q", args[1])
	}
	sale, err := api.sale(ctx, args[0])
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range sale.Items {
		if it := &sale.Items[i]; it.Item == name {
			it.Stock += units
			return sale.SaleDefinition, nil
		}
		names = append(names, sale.Items[i].Item)
	}
	return nil, fmt.Errorf("sale %s has no item %q%s", args[0], name, existing(names))
}

// operatorSale is a sale with its definition, which must be put with all fields, because missing ones are set to their defaults.
type operatorSale struct {
	Sale string `json:"sale"`
	sales.SaleDefinition
}

// sale returns the definition of a sale.
func (a *internalAPI) sale(ctx context.Context, name string) (found operatorSale, err error) {
	raw, err := a.rawSale(ctx, name)
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found, err
}

// rawSale returns a sale from the operator's list, because the buyers' view has fewer fields.
func (a *internalAPI) rawSale(ctx context.Context, name string) (found json.RawMessage, err error) {
	var names []string
	err = a.pages(ctx, nil, func(item json.RawMessage) error {
		var sale struct{ Sale string }
		if err := json.Unmarshal(item, &sale); err != nil {
			return err
		}
		if names = append(names, sale.Sale); sale.Sale == name {
			found = item
		}
		return nil
	}, "v1", "sales")
	if err == nil && found == nil {
		err = fmt.Errorf("sale %q does not exist%s", name, existing(names))
	}
	return found, err
}
