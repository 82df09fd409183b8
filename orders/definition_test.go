package orders_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// define returns the smallest definition.
func define() orders.Definition {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	return orders.Definition{ID: "spring", StartsAt: noon, EndsAt: noon.Add(time.Hour), Items: []orders.ItemDefinition{{ID: "shoe", Stock: 2}}}
}

// TestDefaultsOfADefinition: they are those of the HTTP API, whose TestPutSale compares them.
func TestDefaultsOfADefinition(t *testing.T) {
	d := define()
	got, err := d.Sale()
	want := orders.Sale{
		ID: "spring", StartsAt: d.StartsAt, EndsAt: d.EndsAt, RequiresUser: true, Hold: 15 * time.Minute,
		Items: []orders.Item{{ID: "shoe", Stock: 2, QuotaPerBuyer: 1, InFlightMax: 10_000}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestDefinitionOfASale: a definition that is read and put again changes nothing.
func TestDefinitionOfASale(t *testing.T) {
	d := define()
	d.Anonymous, d.Hold, d.Revision = true, orders.NoHold, 7
	d.Items[0] = orders.ItemDefinition{ID: "shoe", Stock: 2, QuotaPerBuyer: 3, InFlightMax: 4, Final: true}
	s, err := d.Sale()
	if err != nil || s.Hold != 0 || s.RequiresUser {
		t.Errorf("%+v, %v", s, err)
	}
	if again := s.Definition(); !reflect.DeepEqual(again, d) {
		t.Errorf("%+v, want %+v", again, d)
	}
}

// TestInvalidDefinitions: errors name the fields of the definition.
func TestInvalidDefinitions(t *testing.T) {
	for field, change := range map[string]func(*orders.Definition){
		"ID":                     func(d *orders.Definition) { d.ID = "" },
		"EndsAt":                 func(d *orders.Definition) { d.EndsAt = d.StartsAt },
		"StartsAt":               func(d *orders.Definition) { d.StartsAt, d.EndsAt = time.Time{}, time.Time{}.Add(time.Hour) },
		"Hold":                   func(d *orders.Definition) { d.Hold = 15 }, // no unit
		"Items":                  func(d *orders.Definition) { d.Items = nil },
		"Items[0].ID":            func(d *orders.Definition) { d.Items[0].ID = "{}" },
		"Items[0].Stock":         func(d *orders.Definition) { d.Items[0].Stock = -1 },
		"Items[0].QuotaPerBuyer": func(d *orders.Definition) { d.Items[0].QuotaPerBuyer = -1 },
		"Items[0].InFlightMax":   func(d *orders.Definition) { d.Items[0].InFlightMax = orders.MaxInFlight + 1 },
		"Items[1].ID":            func(d *orders.Definition) { d.Items = append(d.Items, d.Items[0]) },
	} {
		d := define()
		change(&d)
		_, err := d.Sale()
		invalid, ok := errors.AsType[*orders.Error](err)
		if !ok || !errors.Is(err, orders.ErrInvalid) || invalid.Field != field || !strings.HasPrefix(err.Error(), "orders: invalid: "+field+" ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestTheZeroOutcomeIsNotAdmitted(t *testing.T) {
	var out orders.Outcome
	if out.Admitted() {
		t.Error("admitted without an order")
	}
}
