package problem

import "strings"

// locations are the places in requests of the fields that package orders calls invalid, other than those of items.
var locations = map[string]string{
	// of orders.Definition
	"ID":       "path.sale",
	"StartsAt": "body.starts_at",
	"EndsAt":   "body.ends_at",
	"Hold":     "body.hold_ms",
	"Items":    "body.items",
	// of orders.Request
	"Quantity": "body.quantity",
	"User":     "user",
	"Key":      "header.Idempotency-Key",
	// of a payment
	"reference": "body.reference",
	// of none
	"": "body",
}

// itemLocations are the members of an item's definition.
var itemLocations = map[string]string{
	"ID":            "item",
	"Stock":         "stock",
	"QuotaPerBuyer": "quota_per_buyer",
	"InFlightMax":   "in_flight_max",
}

// locationOf returns the place in a request of a Go field, such as body.items[0].stock of Items[0].Stock and body.stock of Item.Stock.
func locationOf(field string) string {
	if member, ok := strings.CutPrefix(field, "Item."); ok { // of orders.ItemDefinition
		if member == "ID" {
			return "path.item"
		}
		return "body." + itemLocations[member]
	}
	if index, member, ok := strings.Cut(field, "]."); ok {
		return locations["Items"] + strings.TrimPrefix(index, "Items") + "]." + itemLocations[member]
	}
	return locations[field]
}
