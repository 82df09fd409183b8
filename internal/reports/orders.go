package reports

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidegate/tidegate/orders"
)

// pageSize is how many orders are in memory at a time.
const pageSize = 1000

// Orders is what a report is made of: an orders.Service.
type Orders interface {
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)
}

// header names the fields of a row. Times are RFC 3339, UTC; units are separated by spaces; what is not known is empty.
var header = []string{"order_id", "status", "item", "user", "quantity", "units", "accepted_at", "confirmed_at", "reason"}

// WriteOrders writes all orders of a sale to w, in the order of their ids, until ctx ends. Nothing is written when the first ones cannot be
// read, so the error may still be told in another way.
func WriteOrders(ctx context.Context, w io.Writer, from Orders, sale string) error {
	rows := csv.NewWriter(w)
	q := orders.Query{Sale: sale, Viewer: orders.Viewer{All: true}, Limit: pageSize}
	for first := true; ; first = false {
		page, err := from.Orders(ctx, q)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if first {
			_ = rows.Write(header) // errors are kept until Flush
		}
		for i := range page {
			_ = rows.Write(row(&page[i]))
		}
		if rows.Flush(); rows.Error() != nil {
			return rows.Error()
		}
		if len(page) < pageSize {
			return nil
		}
		q.After = page[len(page)-1].ID
	}
}

func row(o *orders.Order) []string {
	units := make([]string, len(o.Units))
	for i, u := range o.Units {
		units[i] = strconv.Itoa(u)
	}
	return []string{
		o.ID.String(), string(o.Status), Harmless(o.Item), Harmless(o.Buyer), strconv.Itoa(o.Quantity), strings.Join(units, " "),
		Instant(o.AcceptedAt), Instant(o.ConfirmedAt), string(o.Reason),
	}
}

// Harmless keeps a spreadsheet from running what a buyer is called as a formula (OWASP, CSV Injection). Some take the full-width forms of the
// signs for the signs.
func Harmless(text string) string {
	if first, _ := utf8.DecodeRuneInString(text); strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + text
	}
	return text
}

// Instant formats a time for a spreadsheet; the zero time is empty.
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
