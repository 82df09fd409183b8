package shop_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestReferencesOfPayments(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p)
	id := in.order(p, sale.ID, "ada", "", 1).Order.ID
	in.settled(p, id)
	for _, reference := range []string{"", " ", "   ", "a\nb", "a\u00a0b", "pi_\xff", strings.Repeat("r", 256), strings.Repeat("払", 256)} {
		_, err := p.Pay(t.Context(), id, reference)
		if invalid, ok := errors.AsType[*orders.Error](err); !ok || !errors.Is(err, orders.ErrInvalid) || invalid.Field != "reference" {
			t.Errorf("%.20q: %v", reference, err)
		}
	}
	longest := strings.Repeat("払", 255)
	for range 2 {
		paid, err := p.Pay(t.Context(), id, longest)
		if err != nil || paid.Action != orders.ActionNone || paid.Status != orders.StatusPaid || paid.Reference != longest {
			t.Errorf("%+v, %v", paid, err)
		}
	}
}
