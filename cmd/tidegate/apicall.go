package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/periodic"
)

// An apiCall is a command that makes one call of the internal API, and prints its answer as text or, with --json, unchanged.
type apiCall struct {
	use, short, long, example string // words of use in capitals are the arguments

	method string
	path   func(args []string) []string
	flags  func(*cobra.Command)           // nil: no flags besides the shared ones
	query  func(args []string) url.Values // nil: none
	body   bodyOf                         // nil: none
	again  bool                           // body was made from the current state: a conflict means that it has changed since
	ask    question                       // confirmation before the call; nil: none, because it can be undone

	instead func() *apiCall // what flags have chosen instead of this call; nil: nothing

	list     bool       // the answer is a page of items
	source   source     // of the items; nil: the pages at path
	many     bool       // the list may be arbitrarily long
	pick     bool       // print only the item whose first column equals the first argument
	columns  []string   // names of the fields that are printed
	split    string     // field with a list: an item of a list is printed once for each of its elements, whose fields are added; empty: once
	show     showing    // prints the answer; nil: print columns
	done     string     // printed if the answer is empty
	complete completion // nil: arguments are not completed
}

type (
	bodyOf   func(ctx context.Context, api *internalAPI, args []string) (body any, err error)
	question func(ctx context.Context, api *internalAPI, args []string) (text string, err error) // "": no confirmation
	source   func(ctx context.Context, api *internalAPI, query url.Values, args []string, fn func(item json.RawMessage) error) error
	showing  func(out io.Writer, args []string, answer []byte, asJSON bool) error
)

func (c apiCall) command(getenv func(string) string) *cobra.Command {
	var (
		o   options
		api = internalAPI{getenv: getenv}
	)
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: named, ValidArgsFunction: c.complete.of(&api),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args, &api, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print the API's JSON")
	if c.list && !c.pick {
		f.Lookup("json").Usage += ", one object per line"
	}
	if c.many {
		f.IntVar(&o.most, "limit", 100, "maximum number of items; 0: all")
	}
	if c.ask != nil {
		f.BoolVarP(&o.yes, "yes", "y", false, "skip the confirmation")
	}
	if c.flags != nil {
		c.flags(cmd)
	}
	api.addFlags(cmd)
	return cmd
}

// options are the flags shared by all calls.
type options struct {
	asJSON, yes bool
	most        int // items; 0: all
}

// A change made through one API process reaches all others within a second.
const (
	mostTries    = 10
	betweenTries = 200 * time.Millisecond
)

func (c apiCall) run(cmd *cobra.Command, args []string, api *internalAPI, o options) error {
	if c.instead != nil {
		if other := c.instead(); other != nil {
			return other.run(cmd, args, api, o)
		}
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	query := url.Values{}
	if c.query != nil {
		query = c.query(args)
	}
	if o.most < 0 {
		return fmt.Errorf("--limit must be 0 (all) or more, got %d", o.most)
	}
	if c.list {
		return c.printList(ctx, out, api, query, args, o)
	}
	var body any
	if c.body != nil {
		var err error
		if body, err = c.body(ctx, api, args); err != nil {
			return err
		}
	}
	if c.ask != nil && !o.yes {
		text, err := c.ask(ctx, api, args)
		if err == nil && text != "" {
			err = confirm(cmd, text)
		}
		if err != nil {
			return err
		}
	}
	answer, err := api.sendOrAsk(cmd, o, c.method, query, body, c.path(args)...)
	for tries := 1; c.again && tries < mostTries && apiclient.HasStatus(err, http.StatusConflict); tries++ {
		if !periodic.Pause(ctx, betweenTries) {
			return context.Cause(ctx)
		}
		if body, err = c.body(ctx, api, args); err != nil {
			return err
		}
		answer, err = api.send(ctx, c.method, query, body, c.path(args)...)
	}
	switch {
	case err != nil:
		return c.advised(ctx, api, args, err)
	case c.show != nil:
		return c.show(out, args, answer, o.asJSON)
	case len(answer) == 0 && o.asJSON:
		return nil
	case len(answer) == 0:
		_, err = fmt.Fprintln(out, c.done)
		return err
	}
	return c.printOne(out, answer, o.asJSON)
}

// advised adds the existing names to the error for an unknown one.
func (c apiCall) advised(ctx context.Context, api *internalAPI, args []string, err error) error {
	if c.complete == nil || len(args) == 0 || !apiclient.HasStatus(err, http.StatusNotFound) {
		return err
	}
	return fmt.Errorf("%w%s", err, existing(c.complete.candidates(ctx, api, args[:len(args)-1])))
}

// existing lists some of the existing names, if any.
func existing(names []string) string {
	switch n := len(names); {
	case n == 0:
		return ""
	case n > 10:
		return input.Harmless(fmt.Sprintf("; existing: %s and %d more", strings.Join(names[:10], ", "), n-10))
	}
	return input.Harmless("; existing: " + strings.Join(names, ", "))
}

func (c apiCall) printOne(out io.Writer, answer []byte, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", harmlessJSON(answer))
		return err
	}
	fields, err := decoded[map[string]any](answer)
	if err != nil {
		return err
	}
	return describe(out, c.columns, fields)
}

var errEnough = errors.New("enough items")

// printList prints the items of all pages, one per line, or only the picked one.
func (c apiCall) printList(ctx context.Context, out io.Writer, api *internalAPI, query url.Values, args []string, o options) error {
	var (
		rows  [][]string
		found int
		names []string
	)
	if 0 < o.most && o.most < 1000 {
		query.Set("limit", strconv.Itoa(o.most))
	}
	items := c.source
	if items == nil {
		items = func(ctx context.Context, api *internalAPI, query url.Values, args []string, fn func(json.RawMessage) error) error {
			return api.pages(ctx, query, fn, c.path(args)...)
		}
	}
	err := items(ctx, api, query, args, func(item json.RawMessage) error {
		fields, err := decoded[map[string]any](item)
		if err != nil {
			return err
		}
		if c.pick {
			if name := cell("", fields[c.columns[0]]); name != args[0] {
				names = append(names, name)
				return nil
			}
			if err := c.printOne(out, item, o.asJSON); err != nil {
				return err
			}
			return errEnough
		}
		if found++; o.asJSON {
			_, err = fmt.Fprintf(out, "%s\n", harmlessJSON(item))
		} else {
			rows = append(rows, c.rows(fields)...)
		}
		if err == nil && found == o.most {
			err = errEnough
		}
		return err
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil && c.pick:
		return fmt.Errorf("%s %q does not exist%s", c.columns[0], args[0], existing(names))
	}
	if err != nil {
		return c.advised(ctx, api, args, err)
	}
	if o.asJSON || c.pick {
		return nil
	}
	if found == 0 {
		_, err = fmt.Fprintln(out, "none")
		return err
	}
	return writeTable(out, slices.Insert(rows, 0, c.header()))
}

func (c apiCall) header() []string {
	names := make([]string, len(c.columns))
	for i, name := range c.columns {
		if names[i] = strings.ToUpper(label(name)); name == "items" {
			names[i] += ", FREE/STOCK" // as cell prints them
		}
	}
	return names
}

func (c apiCall) row(fields map[string]any) []string {
	cells := make([]string, len(c.columns))
	for i, name := range c.columns {
		cells[i] = cell(name, fields[name])
	}
	return cells
}

// rows returns the rows of an item.
func (c apiCall) rows(fields map[string]any) (rows [][]string) {
	parts, _ := fields[c.split].([]any)
	for _, part := range parts {
		if part, ok := part.(map[string]any); ok {
			maps.Copy(fields, part)
			rows = append(rows, c.row(fields))
		}
	}
	if rows == nil {
		rows = append(rows, c.row(fields))
	}
	return rows
}

// calls returns a group of calls.
func calls(getenv func(string) string, use, short string, all ...apiCall) *cobra.Command {
	cmd := group(use, short)
	for _, c := range all {
		cmd.AddCommand(c.command(getenv))
	}
	return cmd
}

func below(fixed ...string) func([]string) []string {
	return func(args []string) []string { return append(append([]string{"v1"}, fixed...), args...) }
}
