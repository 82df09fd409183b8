package main

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/httpapi/permits"
)

// A completion has one function per argument, which returns the candidates, given the arguments before it.
type completion []func(ctx context.Context, api *internalAPI, args []string) []string

// completeWithin is the maximum time for fetching candidates.
const completeWithin = 2 * time.Second

// candidates returns the candidates for the argument after args. If the server is unavailable there are none, because a completion cannot
// report errors.
func (c completion) candidates(ctx context.Context, api *internalAPI, args []string) []string {
	if len(args) >= len(c) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	return slices.DeleteFunc(c[len(args)](ctx, api, args), func(name string) bool { return !typeable.MatchString(name) })
}

// typeable matches names that a shell passes on unchanged: not a flag, and without characters that a shell expands or splits at. Clients
// choose many of the names.
var typeable = regexp.MustCompile(`^[A-Za-z0-9._:/][A-Za-z0-9._:/@+=,%-]*$`)

func (c completion) of(api *internalAPI) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		fit := slices.DeleteFunc(c.candidates(cmd.Context(), api, args), func(name string) bool { return !strings.HasPrefix(name, typed) })
		if slices.ContainsFunc(fit, func(name string) bool { return strings.HasSuffix(name, toContinue) }) {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return fit, directive
	}
}

// Completions of a single argument.
var (
	saleNames      = completion{fieldsOf("sale", "v1", "sales")}
	semaphoreNames = completion{fieldsOf("name", "v1", "semaphores")}
	deadOrders     = completion{fieldsOf("order_id", "v1", "orders", "dead")}
	banKinds       = completion{func(context.Context, *internalAPI, []string) []string {
		return []string{"user", "ip", "network", "device"}
	}}
)

// fieldsOf completes with the values of a field in a list.
func fieldsOf(field string, path ...string) func(context.Context, *internalAPI, []string) []string {
	return func(ctx context.Context, api *internalAPI, _ []string) []string {
		return api.values(ctx, func(item map[string]any) any { return item[field] }, path...)
	}
}

// values returns what pick returns for the items of a list, up to an error.
func (a *internalAPI) values(ctx context.Context, pick func(item map[string]any) any, path ...string) (found []string) {
	_ = a.pages(ctx, nil, func(item json.RawMessage) error {
		var fields map[string]any
		err := json.Unmarshal(item, &fields)
		if text, ok := pick(fields).(string); ok {
			found = append(found, text)
		}
		return err
	}, path...)
	return found
}

// bannedValues completes with the bans of the kind in the first argument. Users are left out: there may be any number of them, and a key
// press should not put users' names on the screen.
func bannedValues(ctx context.Context, api *internalAPI, args []string) []string {
	if args[0] == "user" {
		return nil
	}
	return api.values(ctx, func(ban map[string]any) any {
		if ban["kind"] != args[0] {
			return nil
		}
		return ban["value"]
	}, "v1", "bans")
}

// toContinue is the suffix of a candidate that is only the beginning of an argument.
const toContinue = "=+"

// itemsToStock completes with the items of the sale in the first argument, each to be continued.
func itemsToStock(ctx context.Context, api *internalAPI, args []string) (items []string) {
	sale, err := api.sale(ctx, args[0])
	if err != nil {
		return nil
	}
	for _, it := range sale.Items {
		items = append(items, it.Item+toContinue)
	}
	return items
}

// permitsOf completes with the permits of the semaphore in the first argument.
func permitsOf(ctx context.Context, api *internalAPI, args []string) (ids []string) {
	semaphore, err := ask[permits.SemaphoreView](ctx, api, http.MethodGet, nil, nil, "v1", "semaphores", args[0])
	if err != nil {
		return nil
	}
	for _, h := range semaphore.Holders {
		ids = append(ids, h.PermitID)
	}
	return ids
}
