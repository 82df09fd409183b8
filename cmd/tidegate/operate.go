package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// An apiCall is a command that makes one call of the internal API, and prints its answer as a table or, with --json, as it is.
type apiCall struct {
	use, short, long string
	args             int
	method           string
	path             func(args []string) []string
	flags            func(*cobra.Command)                      // nil: none of its own
	query            func() url.Values                         // nil: none
	body             func(args []string) (body any, err error) // nil: none
	columns          []string                                  // names of the fields that are printed, of every item or of the one answer
	done             string                                    // printed where the answer is empty
}

func (c apiCall) command(getenv func(string) string) *cobra.Command {
	var (
		api    internalAPI
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Args: cobra.ExactArgs(c.args),
		RunE: func(cmd *cobra.Command, args []string) error {
			var body any
			var query url.Values
			if c.body != nil {
				var err error
				if body, err = c.body(args); err != nil {
					return err
				}
			}
			if c.query != nil {
				query = c.query()
			}
			out := cmd.OutOrStdout()
			for found := 0; ; {
				answer, err := api.send(cmd.Context(), c.method, query, body, c.path(args)...)
				if err != nil {
					return err
				}
				var page struct {
					Items []json.RawMessage
					Next  string `json:"next_cursor"`
				}
				listed := c.method == http.MethodGet && json.Unmarshal(answer, &page) == nil && page.Items != nil
				if !listed {
					return c.print(out, answer, asJSON)
				}
				found += len(page.Items)
				if err := c.printAll(out, page.Items, asJSON); err != nil {
					return err
				}
				if page.Next == "" {
					if found == 0 && !asJSON {
						fmt.Fprintln(out, "none")
					}
					return nil
				}
				if query == nil {
					query = url.Values{}
				}
				query.Set("cursor", page.Next)
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON as the API has it, of lists one object a line")
	if c.flags != nil {
		c.flags(cmd)
	}
	api.addFlags(cmd, getenv)
	return cmd
}

func (c apiCall) print(out io.Writer, answer []byte, asJSON bool) error {
	switch {
	case len(bytes.TrimSpace(answer)) == 0 && asJSON:
		return nil
	case len(bytes.TrimSpace(answer)) == 0:
		_, err := fmt.Fprintln(out, c.done)
		return err
	case asJSON:
		_, err := fmt.Fprintf(out, "%s\n", bytes.TrimSpace(answer))
		return err
	}
	return c.printAll(out, []json.RawMessage{answer}, false)
}

// printAll prints items, a line each.
func (c apiCall) printAll(out io.Writer, items []json.RawMessage, asJSON bool) error {
	if len(items) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, strings.ToUpper(strings.ReplaceAll(strings.Join(c.columns, "\t"), "_", " ")))
	}
	for _, item := range items {
		if asJSON {
			fmt.Fprintf(out, "%s\n", item)
			continue
		}
		var fields map[string]any
		decoder := json.NewDecoder(bytes.NewReader(item))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			return fmt.Errorf("the answer is something else than expected: %w; is it Tidegate's internal listener?", err)
		}
		cells := make([]string, len(c.columns))
		for i, name := range c.columns {
			cells[i] = cell(fields[name])
		}
		fmt.Fprintln(table, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return table.Flush()
}

// cell is a value on one line, without what would move a terminal's cursor.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Local().Format("2006-01-02 15:04:05")
		}
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || 0x200b <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 {
				return '\ufffd'
			}
			return r
		}, v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = cell(v[i])
		}
		return strings.Join(parts, ", ")
	case map[string]any: // an item of a sale, a holder of a permit
		for _, pair := range [][2]string{{"item", "free"}, {"holder", "weight"}, {"name", "limit"}} {
			if name, ok := v[pair[0]]; ok {
				text := cell(name) + " " + cell(v[pair[1]])
				if stock, ok := v["stock"]; ok {
					text += "/" + cell(stock)
				}
				return text
			}
		}
	}
	return fmt.Sprint(v)
}

// group is a command that only has others below it.
func group(getenv func(string) string, use, short string, calls ...apiCall) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	for _, c := range calls {
		cmd.AddCommand(c.command(getenv))
	}
	return cmd
}

func below(fixed ...string) func([]string) []string {
	return func(args []string) []string { return append(append([]string{"v1"}, fixed...), args...) }
}
