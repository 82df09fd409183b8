package live

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/livepage"
	"github.com/tidegate/tidegate/orders"
)

// fakeSales has many sales, of which the last ones are open.
type fakeSales struct {
	Orders

	sales, open int
	asked       []string
	err         error
}

func (s *fakeSales) status(i int) orders.SaleStatus {
	status := orders.SaleStatus{State: orders.StateEnded}
	status.ID, status.Items = fmt.Sprintf("sale-%03d", i), []orders.Item{{ID: "shoe", Stock: 9}}
	status.EndsAt = time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC)
	if i >= s.sales-s.open {
		status.State = orders.StateOpen
	}
	return status
}

func (s *fakeSales) SaleStates() (list []orders.SaleStatus, err error) {
	for i := range s.sales {
		list = append(list, s.status(i))
	}
	return list, nil
}

func (s *fakeSales) Sale(_ context.Context, id string) (orders.SaleStatus, error) {
	s.asked = append(s.asked, id)
	var i int
	if _, err := fmt.Sscanf(id, "sale-%d", &i); err != nil {
		return orders.SaleStatus{}, err
	}
	status := s.status(i)
	status.Free = map[string]int{"shoe": 4}
	return status, s.err
}

// However many sales there are, the page reads only those that it lists.
func TestThePageReadsTheSalesThatItLists(t *testing.T) {
	s := &fakeSales{sales: 300, open: 3}
	p := &Collector{Orders: s}
	sales, err := p.sales(t.Context())
	if err != nil || len(sales) != 300 || len(s.asked) != livepage.MostSales {
		t.Fatalf("%d sales, %d asked, %v", len(sales), len(s.asked), err)
	}
	for i, sale := range sales {
		state := "ended"
		if i < s.open {
			state = "open"
		}
		if read := i < livepage.MostSales; sale.State != state || sale.Items == nil || read != (len(sale.Items) == 1 && *sale.Items[0].Free == 4) {
			t.Errorf("%d: %+v", i, sale)
		}
	}
	if s.asked[0] != "sale-297" || s.asked[3] != "sale-296" {
		t.Errorf("asked for %v", s.asked)
	}
	s.err = errors.New("away")
	if _, err := p.sales(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("%v", err)
	}
}
