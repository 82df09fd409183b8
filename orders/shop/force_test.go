package shop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// An order counts before the database has it, and a sale that is opened while its hours are changed stays as it is.
func TestForceIsRequired(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start() // and no worker
	sale := in.sale(p)
	put := func(change func(d *orders.Definition)) error {
		t.Helper()
		now, err := p.store.sale(t.Context(), sale.ID)
		must(t, err)
		d := now.Definition()
		d.Revision = 0
		change(&d)
		_, _, err = p.PutSale(t.Context(), d)
		return err
	}
	anybody := func(d *orders.Definition) { d.Anonymous = !d.Anonymous }
	in.answered("without orders", func() error { return put(anybody) })
	in.answered("and back", func() error { return put(anybody) })
	if out := in.order(p, sale.ID, "ann", "", 1); !out.Admitted() {
		t.Fatalf("%+v", out)
	}
	if err := put(anybody); !errors.Is(err, orders.ErrForceRequired) || !errors.Is(err, orders.ErrConflict) || !strings.Contains(err.Error(), "has orders") {
		t.Errorf("an order that is not committed: %v", err)
	}
	stale := func(d *orders.Definition) { d.Anonymous, d.Revision = true, 1 }
	if err := put(stale); errors.Is(err, orders.ErrForceRequired) || !errors.Is(err, orders.ErrConflict) {
		t.Errorf("of a former revision: %v", err)
	}
	in.answered("by force", func() error { return put(func(d *orders.Definition) { d.Anonymous, d.Force = true, true }) })

	sale.ID = "opened-meanwhile"
	sale.StartsAt = sale.StartsAt.Add(-time.Minute)
	in.answered("a draft", func() error {
		_, _, err := p.PutSale(t.Context(), sale.Definition())
		return err
	})
	open := hook(func(ctx context.Context, call string) error {
		if call != "put sale" {
			return nil
		}
		return p.store.Store.SetSwitch(ctx, sale.ID, orders.SwitchOpen)
	})
	p.store.before.Store(&open)
	err := put(func(d *orders.Definition) { d.StartsAt = time.Now().Add(10 * time.Minute) })
	p.store.before.Store(nil)
	if !errors.Is(err, orders.ErrConflict) {
		t.Errorf("it was opened meanwhile: %v", err)
	}
	if now, err := p.store.sale(t.Context(), sale.ID); err != nil || now.Switch != orders.SwitchOpen || !now.StartsAt.Before(time.Now()) {
		t.Errorf("%+v, %v", now, err)
	}
}
