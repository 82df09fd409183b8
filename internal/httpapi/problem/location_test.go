package problem

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
)

// TestLocations: callers read where the JSON or the header is wrong, not which field in Go.
func TestLocations(t *testing.T) {
	for field, want := range map[string]string{
		"ID": "path.sale", "StartsAt": "body.starts_at", "EndsAt": "body.ends_at", "Hold": "body.hold_ms", "Items": "body.items",
		"Items[0].ID": "body.items[0].item", "Items[12].Stock": "body.items[12].stock", "Items[1].QuotaPerBuyer": "body.items[1].quota_per_buyer",
		"Items[2].InFlightMax": "body.items[2].in_flight_max", "Quantity": "body.quantity", "User": "user", "Key": "header.Idempotency-Key",
		"reference": "body.reference",
	} {
		p := Of(&orders.Error{Kind: orders.ErrInvalid, Field: field, Detail: "is wrong"})
		if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != want || p.Errors[0].Message != "is wrong" {
			t.Errorf("%s: %+v, want %s", field, p, want)
		}
	}
}
