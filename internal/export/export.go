// Package export writes lists of any length as CSV for spreadsheets, or as NDJSON for programs.
package export

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// PageSize is how many rows are in memory at a time.
const PageSize = 1000

// A Format is the media type of an export.
type Format string

// The formats. CSV has a line of column names, and cells that no spreadsheet takes for formulas, see Harmless. NDJSON has an
// object per line with the columns as fields, and every text as it is stored.
const (
	CSV    Format = "text/csv"
	NDJSON Format = "application/x-ndjson"
)

// Extension returns the end of the names of such files.
func (f Format) Extension() string {
	if f == NDJSON {
		return ".ndjson"
	}
	return ".csv"
}

// Write writes all pages to w, until ctx ends. next returns the page after a row, or the first page for nil: PageSize rows, or
// fewer if it is the last one. Nothing is written when the first page cannot be read, so that the error can still be the answer.
// row returns a value per column: a text, a number, a list of numbers or a time. Empty texts and zero times are unknown: an empty
// cell, and null in NDJSON.
func Write[T any](
	ctx context.Context, w io.Writer, f Format, columns []string, next func(after *T) ([]T, error), row func(*T) []any,
) error {
	var (
		out   bytes.Buffer
		cells = csv.NewWriter(&out)
		after *T
	)
	for {
		page, err := next(after)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if f == CSV && after == nil {
			_ = cells.Write(columns) // into memory
		}
		for i := range page {
			if values := row(&page[i]); f == NDJSON {
				err = Object(&out, columns, values)
			} else {
				err = cells.Write(texts(values))
			}
			if err != nil {
				return err
			}
		}
		cells.Flush()
		if _, err := out.WriteTo(w); err != nil {
			return err
		}
		if len(page) < PageSize {
			return nil
		}
		after = &page[len(page)-1]
	}
}

// Object adds a line of NDJSON: an object with these fields, in this order.
func Object(out *bytes.Buffer, fields []string, values []any) error {
	for i, field := range fields {
		v := values[i]
		if unknown(v) {
			v = nil
		} else if t, ok := v.(time.Time); ok {
			v = instant(t)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("export: %s: %w", field, err)
		}
		fmt.Fprintf(out, `%c"%s":%s`, "{,"[min(i, 1)], field, text)
	}
	out.WriteString("}\n")
	return nil
}

// texts returns the cells of a row of CSV.
func texts(values []any) []string {
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			cells[i] = Harmless(v)
		case time.Time:
			if !v.IsZero() {
				cells[i] = instant(v)
			}
		case []int:
			cells[i] = strings.Trim(fmt.Sprint(v), "[]")
		case nil:
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return cells
}

func unknown(v any) bool {
	t, isTime := v.(time.Time)
	return v == "" || isTime && t.IsZero()
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// formula matches where a formula begins: at a sign at the start of a cell, quoted or not. Where the comma is the decimal
// separator spreadsheets split lines at another character, and ignore quotes that do not begin a cell, so that one may begin
// after any separator. Some take the full-width forms of the signs for the signs.
var formula = regexp.MustCompile(`((?:\A|[,;|\t\r\n])"*)([=+\-@＝＋－＠])`)

// Harmless returns a text that no spreadsheet runs as a formula (OWASP, CSV Injection): with an apostrophe before each sign at
// which it could take one to begin.
func Harmless(text string) string {
	text = formula.ReplaceAllString(text, "$1'$2")
	if text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
