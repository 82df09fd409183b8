package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"

	"github.com/tidegate/tidegate/internal/input"
)

// decoded decodes an object of the internal API: a struct, or a map whose numbers stay json.Number.
func decoded[T any](object []byte) (v T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err = decoder.Decode(&v); err != nil {
		err = fmt.Errorf("unexpected response: %w; is --internal the URL of Tidegate's internal listener?", err)
	}
	return v, err
}

// writeTable prints rows with aligned columns.
func writeTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// mostListed is how many elements of a list are printed as text.
const mostListed = 10

func andMore(n int) string { return fmt.Sprintf("and %d more", n) }

// columnsOf returns the names of the fields of a response, except those without use for a reader.
func columnsOf[T any](without ...string) (columns []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && !slices.Contains(without, name) {
			columns = append(columns, name)
		}
	}
	return columns
}

// describe prints an object, one line per field with a value; nested objects are printed one per line.
func describe(out io.Writer, columns []string, fields map[string]any) error {
	var rows [][]string
	for _, field := range columns {
		v := fields[field]
		all, ok := v.([]any)
		if _, objects := first(all).(map[string]any); !ok || !objects {
			all = []any{v}
		}
		for i, v := range all {
			name := label(field)
			if i > 0 {
				name = ""
			}
			if i == mostListed {
				rows = append(rows, []string{name, andMore(len(all) - i)})
				break
			}
			if object, ok := v.(map[string]any); ok {
				rows = append(rows, []string{name, pairs(object)})
			} else if text := cell(field, v); text != "-" && text != "" {
				rows = append(rows, []string{name, text})
			}
		}
	}
	return writeTable(out, rows)
}

func first(all []any) any {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// pairs formats an object on one line.
func pairs(object map[string]any) string {
	var parts []string
	names := slices.Sorted(maps.Keys(object))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, name := range names {
		shown := label(name)
		if _, twice := object[strings.TrimSuffix(name, "_ms")]; twice && strings.HasSuffix(name, "_ms") {
			shown = strings.TrimSuffix(name, "_ms") + " for" // semaphores report both the number of waits and their total time
		}
		if text := cell(name, object[name]); text != "-" && text != "" {
			if strings.ContainsAny(text, " =\"") {
				text = strconv.Quote(text)
			}
			parts = append(parts, strings.ReplaceAll(shown, " ", "_")+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// rank sorts identifying fields before others.
func rank(field string) int {
	if slices.Contains([]string{"item", "holder", "rule"}, field) {
		return 0
	}
	return 1
}

// label returns the printed name of a field: "_ms" is dropped because durations are printed as 1m30s.
func label(field string) string {
	return strings.ReplaceAll(strings.TrimSuffix(field, "_ms"), "_", " ")
}

// cell formats a field's value on one line.
func cell(field string, v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return input.Harmless(v)
	case json.Number:
		if ms, err := v.Int64(); err == nil && strings.HasSuffix(field, "_ms") {
			return (time.Duration(ms) * time.Millisecond).String()
		}
		return v.String()
	case []any:
		var parts []string
		for i := range v[:min(mostListed, len(v))] {
			parts = append(parts, cell(field, v[i]))
		}
		if n := len(v) - mostListed; n > 0 {
			parts = append(parts, andMore(n))
		}
		return strings.Join(parts, ", ")
	case map[string]any: // short form for lists of objects
		switch {
		case v["item"] != nil:
			return fmt.Sprintf("%s %s/%s", cell("", v["item"]), cell("", v["free"]), cell("", v["stock"]))
		case v["holder"] != nil:
			return cell("", v["holder"])
		}
		return pairs(v)
	}
	return fmt.Sprint(v)
}

// harmlessJSON returns the JSON on one line, with hostile characters escaped; in valid JSON they only occur in strings.
func harmlessJSON(text []byte) []byte {
	var line, b bytes.Buffer
	if json.Compact(&line, text) != nil {
		return []byte(input.Harmless(string(text))) // not valid JSON
	}
	for _, r := range line.String() {
		switch {
		case !input.Hostile(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
