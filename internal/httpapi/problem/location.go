package problem

import (
	"strings"
	"unicode"
)

// locations are the places in requests of the fields that package orders calls invalid, other than those of items, where they are not the
// member of the body with the same name.
var locations = map[string]string{
	// of orders.Definition
	"ID":   "path.sale",
	"Hold": "body.hold_ms",
	// of orders.Request
	"User": "user",
	"Key":  "header.Idempotency-Key",
	// of none
	"": "body",
}

// locationOf returns the place in a request of a Go field, such as body.items[0].stock of Items[0].Stock and body.stock of Item.Stock.
func locationOf(field string) string {
	if member, ok := strings.CutPrefix(field, "Item."); ok { // of orders.ItemDefinition
		if member == "ID" {
			return "path.item"
		}
		return "body." + snake(member)
	}
	if index, member, ok := strings.Cut(field, "]."); ok {
		if member == "ID" {
			member = "Item"
		}
		return "body." + snake(index) + "]." + snake(member)
	}
	if at, ok := locations[field]; ok {
		return at
	}
	return "body." + snake(field)
}

// snake returns the name in JSON of a Go field: quota_per_buyer of QuotaPerBuyer.
func snake(field string) string {
	var b strings.Builder
	for i, r := range field {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
