package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/strictjson"
	"github.com/tidegate/tidegate/orders"
)

// importColumns are the columns of a file with items.
var importColumns = []string{"item", "stock", "quota_per_buyer", "in_flight_max", "final"}

// importMost is how many wrong lines of a file are named.
const importMost = 10

// A saleImport adds the items of a file to a sale, or changes them, all in one call.
type saleImport struct {
	stdin            func() io.Reader
	lines            []importedItem // nil: the file is not read yet
	added, put, same int            // of the latest body
}

// An importedItem is an item of a file; nil: not in the file, so what stands remains, or a new item gets the default.
type importedItem struct {
	line  int
	Item  string `json:"item"`
	Stock *int   `json:"stock"`
	Quota *int   `json:"quota_per_buyer"`
	Most  *int   `json:"in_flight_max"`
	Final *bool  `json:"final"`
}

func importSaleCall() apiCall {
	var im saleImport
	return apiCall{
		use: "import SALE FILE", short: "Add or change the items of a sale that a file lists", method: http.MethodPut,
		long: "Add the items of a CSV or NDJSON file to a sale, or change them, all at once or not at all. FILE - is stdin. CSV has a line " +
			"of column names: item and stock, and if wanted quota_per_buyer, in_flight_max and final; NDJSON has an object with these fields " +
			"per line. What a line leaves out stays as it is, or is the default for a new item. Items that are not in the file stay as they " +
			"are. Stock can only grow.",
		example: "  tidegate sales import summer catalogue.csv\n  printf 'item,stock\\nticket,500\\n' | tidegate sales import summer -",
		path:    func(args []string) []string { return []string{"v1", "sales", args[0]} }, complete: saleNames,
		flags: func(cmd *cobra.Command) { im.stdin = cmd.InOrStdin }, body: im.body, again: true, show: im.show,
	}
}

// body returns the sale's definition with the items of the file.
func (im *saleImport) body(ctx context.Context, api *internalAPI, args []string) (any, error) {
	if im.lines == nil {
		text, err := im.read(args[1])
		if err == nil {
			im.lines, err = parseItems(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; nothing was changed", args[1], err)
		}
	}
	sale, err := api.sale(ctx, args[0])
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(sale.Items))
	for i, it := range sale.Items {
		at[it.Item] = i
	}
	im.added, im.put, im.same = 0, 0, 0
	for _, line := range im.lines {
		i, there := at[line.Item]
		if !there {
			i = len(sale.Items)
			sale.Items = append(sale.Items, sales.ItemDefinition{Item: line.Item})
		}
		before := sale.Items[i]
		line.apply(&sale.Items[i])
		switch {
		case !there:
			im.added++
		case before != sale.Items[i]:
			im.put++
		default:
			im.same++
		}
	}
	return sale.SaleDefinition, nil
}

func (im *saleImport) read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(im.stdin())
	}
	return os.ReadFile(file)
}

func (im *saleImport) show(out io.Writer, args []string, answer []byte, asJSON bool) error {
	if asJSON {
		return apiCall{}.printOne(out, answer, true)
	}
	_, err := fmt.Fprintf(out, "%s: %d items added, %d changed, %d as they were\n", input.Harmless(args[0]), im.added, im.put, im.same)
	return err
}

// apply sets what the line has.
func (it *importedItem) apply(to *sales.ItemDefinition) {
	for _, field := range []struct {
		to   *int
		from *int
	}{{&to.Stock, it.Stock}, {&to.QuotaPerBuyer, it.Quota}, {&to.InFlightMax, it.Most}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if it.Final != nil {
		to.Final = *it.Final
	}
}

// parseItems reads the items of a file. The error names up to importMost wrong lines.
func parseItems(text []byte) ([]importedItem, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // spreadsheets write it
	parse := itemsOfCSV
	switch start := bytes.TrimSpace(text); {
	case bytes.HasPrefix(start, []byte("{")):
		parse = itemsOfNDJSON
	case bytes.HasPrefix(start, []byte("[")):
		return nil, errors.New("JSON must have an object per line, and no list around them (jq -c .[] makes it so)")
	}
	wrong := make(map[int]string) // the first problem of each line
	add := func(line int, format string, args ...any) {
		if wrong[line] == "" {
			wrong[line] = fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)
		}
	}
	items, err := parse(text, add)
	if err != nil {
		return nil, err
	}
	first := make(map[string]int, len(items))
	for _, it := range items {
		if at, twice := first[it.Item]; twice {
			add(it.line, "item %q is on line %d, too", it.Item, at)
		}
		first[it.Item] = it.line
		if problem := it.problem(); problem != "" {
			add(it.line, "%s", problem)
		}
	}
	if len(wrong) == 0 && len(items) == 0 {
		return nil, errors.New("there are no items")
	}
	return items, wrongLines(wrong)
}

// wrongLines returns an error with the problems by line, nil if there are none.
func wrongLines(wrong map[int]string) error {
	if len(wrong) == 0 {
		return nil
	}
	var list []string
	for _, line := range slices.Sorted(maps.Keys(wrong)) {
		list = append(list, wrong[line])
	}
	if more := len(list) - importMost; more > 0 {
		list = append(list[:importMost], fmt.Sprintf("and %d more", more))
	}
	return errors.New(harmlessLines(strings.Join(list, "\n")))
}

// problem returns what is wrong with the item by itself.
func (it *importedItem) problem() string {
	if it.Stock == nil {
		return "stock is missing"
	}
	set := sales.ItemDefinition{
		Item:         it.Item,
		ItemSettings: sales.ItemSettings{QuotaPerBuyer: orders.DefaultQuota, InFlightMax: orders.DefaultInFlight},
	}
	it.apply(&set)
	if set.QuotaPerBuyer == 0 || set.InFlightMax == 0 { // to Go they are the defaults
		return "quota_per_buyer and in_flight_max must be 1 or more"
	}
	alone := orders.Definition{ID: "sale", StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []orders.ItemDefinition{
		{ID: set.Item, Stock: set.Stock, QuotaPerBuyer: set.QuotaPerBuyer, InFlightMax: set.InFlightMax, Final: set.Final},
	}}
	_, err := alone.Sale()
	if invalid, ok := errors.AsType[*failure.Error](err); ok {
		column := map[string]string{"ID": "item", "Stock": "stock", "QuotaPerBuyer": "quota_per_buyer", "InFlightMax": "in_flight_max"}
		return column[strings.TrimPrefix(invalid.Field, "Items[0].")] + " " + invalid.Detail
	}
	return ""
}

type wrongLine func(line int, format string, args ...any)

func itemsOfNDJSON(text []byte, wrong wrongLine) (items []importedItem, err error) {
	line := 0
	for object := range bytes.Lines(text) {
		if line++; len(bytes.TrimSpace(object)) == 0 {
			continue
		}
		it := importedItem{line: line}
		var fields any // which strictjson checks in full
		err := strictjson.Format.Unmarshal(object, &fields)
		if err == nil {
			err = onlyColumns(fields)
		}
		if err == nil {
			err = json.Unmarshal(object, &it)
		}
		if err != nil {
			wrong(line, "must be one object with the fields %s: %s", strings.Join(importColumns, ", "),
				strings.ReplaceAll(err.Error(), strictjson.Separator, " "))
			continue
		}
		items = append(items, it)
	}
	return items, nil
}

// onlyColumns returns an error for a value that is no object, or has other fields.
func onlyColumns(value any) error {
	fields, ok := value.(map[string]any)
	if !ok {
		return errors.New("it is none")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(importColumns, name) {
			return fmt.Errorf("%q is unknown", name)
		}
	}
	return nil
}

func itemsOfCSV(text []byte, wrong wrongLine) (items []importedItem, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	header, _, _ := bytes.Cut(text, []byte("\n"))
	if bytes.ContainsRune(header, ';') && !bytes.ContainsRune(header, ',') {
		r.Comma = ';' // of spreadsheets where the comma is the decimal sign
	}
	columns, err := r.Read()
	if err != nil || !slices.Contains(columns, "item") || !slices.Contains(columns, "stock") {
		return nil, errors.New("the first line must name the columns, item and stock among them, such as item,stock,quota_per_buyer")
	}
	for i, column := range columns {
		if !slices.Contains(importColumns, column) || slices.Contains(columns[:i], column) {
			return nil, fmt.Errorf("line 1: column %q must be one of %s, and there once", column, strings.Join(importColumns, ", "))
		}
	}
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return items, nil
		}
		if parse, ok := errors.AsType[*csv.ParseError](err); ok && !errors.Is(err, csv.ErrFieldCount) {
			return nil, parse // the fields that follow are ambiguous
		}
		line, _ := r.FieldPos(0)
		if err != nil {
			wrong(line, "there are %d cells, and %d columns", len(cells), len(columns))
			continue
		}
		it := importedItem{line: line}
		for i, cell := range cells {
			if err := it.set(columns[i], strings.TrimSpace(cell)); err != nil {
				wrong(line, "%v", err)
			}
		}
		items = append(items, it)
	}
}

// set sets the field of a column. An empty cell is not in the file.
func (it *importedItem) set(column, cell string) error {
	number := map[string]**int{"stock": &it.Stock, "quota_per_buyer": &it.Quota, "in_flight_max": &it.Most}[column]
	switch {
	case column == "item":
		it.Item = cell
	case cell == "":
	case number != nil:
		n, err := strconv.Atoi(cell)
		if err != nil {
			return fmt.Errorf("%s must be a whole number, got %q", column, cell)
		}
		*number = &n
	default:
		final, err := strconv.ParseBool(strings.ToLower(cell))
		if err != nil {
			return fmt.Errorf("%s must be true or false, got %q", column, cell)
		}
		it.Final = &final
	}
	return nil
}
