// Package admin changes sales for operators, and items for waiting rooms.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
	"github.com/tidegate/tidegate/orders/shop/internal/recovery"
)

// longOver is how long ago a sale may have ended when it is defined.
const longOver = 24 * time.Hour

// Admin changes sales for operators.
type Admin struct {
	*core.Core
	sales     *catalog.Watch
	notifier  *reading.Notifier
	recoverer *recovery.Recoverer
}

// New returns the part.
func New(c *core.Core, sales *catalog.Watch, notifier *reading.Notifier, recoverer *recovery.Recoverer) *Admin {
	return &Admin{Core: c, sales: sales, notifier: notifier, recoverer: recoverer}
}

func (a *Admin) PutSale(ctx context.Context, d orders.Definition) (status orders.SaleStatus, created bool, err error) {
	def, err := d.Sale()
	if err != nil {
		return orders.SaleStatus{}, false, err
	}
	if err := a.ReadClock(ctx); err != nil {
		return orders.SaleStatus{}, false, err
	}
	if now, _ := a.Clock.Now(); now.Sub(def.EndsAt) > longOver {
		return orders.SaleStatus{}, false, failure.At(orders.ErrInvalid, "EndsAt",
			"is more than a day ago; orders of the sale may still be under way")
	}
	// Run this as the sale's leader: otherwise another process would find items in the database that are not in Redis, consider
	// them lost, and recover the sale.
	err = a.recoverer.Lead(ctx, def.ID, func(ctx context.Context) error {
		if !d.Force {
			if err := a.undisrupted(ctx, &def); err != nil {
				return err
			}
		}
		stored, was, added, err := a.Store.PutSale(ctx, def)
		if err != nil {
			return err
		}
		created = was
		return a.introduce(ctx, stored, added)
	})
	if err != nil {
		return orders.SaleStatus{}, false, err
	}
	status, err = a.apply(ctx, def.ID)
	return status, created, err
}

func (a *Admin) PutItem(ctx context.Context, sale string, item orders.ItemDefinition) (status orders.SaleStatus, added bool, err error) {
	if err := item.Validate("Item."); err != nil {
		return orders.SaleStatus{}, false, err
	}
	if !orders.ValidName(sale) { // as for reread
		return orders.SaleStatus{}, false, orders.ErrUnknownSale
	}
	for tried := int64(0); ; {
		found, missing := a.Store.Sales(ctx, []string{sale})
		if missing == nil && len(found) == 0 {
			missing = orders.ErrUnknownSale
		}
		if missing != nil {
			return orders.SaleStatus{}, false, missing
		}
		d := found[0].Definition()
		if d.Revision == tried {
			return orders.SaleStatus{}, false, err // the conflict is with the item
		}
		at := slices.IndexFunc(d.Items, func(it orders.ItemDefinition) bool { return it.ID == item.ID })
		if added = at < 0; added {
			d.Items = append(d.Items, item)
		} else {
			d.Items[at] = item
		}
		status, _, err = a.PutSale(ctx, d)
		if invalid, ok := errors.AsType[*failure.Error](err); ok && errors.Is(err, orders.ErrInvalid) {
			err = failure.New(orders.ErrInvalid, "%s", invalid.Text()) // of the sale, and no field of the item
		}
		if !errors.Is(err, orders.ErrConflict) {
			return status, added, err
		}
		tried = d.Revision
	}
}

// undisrupted returns ErrForceRequired if def would disrupt the sale. Otherwise it sets def's revision, unless def disrupts the sale in no
// state, so that a sale that is opened meanwhile is not changed.
func (a *Admin) undisrupted(ctx context.Context, def *orders.Sale) error {
	found, err := a.Store.Sales(ctx, []string{def.ID})
	if err != nil || len(found) == 0 {
		return err
	}
	before := &found[0]
	if _, _, err := before.Amend(*def); err != nil {
		return err
	}
	identity := before.RequiresUser != def.RequiresUser
	if !identity && before.StartsAt.Equal(def.StartsAt) && before.EndsAt.Equal(def.EndsAt) {
		return nil
	}
	now, _ := a.Clock.Now()
	why := interruptedBy(before, def, now)
	if identity {
		ordered, err := a.ordered(ctx, def.ID)
		if err != nil {
			return err
		}
		if ordered {
			why = append(why, identityChange(before))
		}
	}
	if why != nil {
		return failure.New(orders.ErrForceRequired, "%s", strings.Join(why, "; "))
	}
	def.Revision = before.Revision
	return nil
}

// ordered reports whether there are orders of a sale, in the database or only in Redis.
func (a *Admin) ordered(ctx context.Context, sale string) (bool, error) {
	found, err := a.Store.Orders(ctx, storage.Filter{Sale: sale, Limit: 1})
	if err != nil || len(found) > 0 {
		return len(found) > 0, err
	}
	l, err := a.sales.Reread(ctx, sale)
	if err != nil {
		return false, err
	}
	for _, ci := range l.Cached {
		ci.Forget()
	}
	status, err := a.sales.Sale(ctx, sale)
	for _, it := range status.Items {
		if free, ok := status.Free[it.ID]; ok && free < it.Stock {
			return true, err
		}
	}
	return false, err
}

func (a *Admin) SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error) {
	if to == orders.SwitchDraft {
		return orders.SaleStatus{}, failure.New(orders.ErrConflict, "sale %s is published, and nothing goes back to draft", sale)
	}
	if !orders.ValidName(sale) { // as for reread
		return orders.SaleStatus{}, orders.ErrUnknownSale
	}
	if err := a.Store.SetSwitch(ctx, sale, to); err != nil {
		return orders.SaleStatus{}, err
	}
	return a.apply(ctx, sale)
}

func (a *Admin) RebuildSale(ctx context.Context, sale string) (orders.SaleStatus, error) {
	before, err := a.sales.Reread(ctx, sale)
	if err != nil {
		return orders.SaleStatus{}, err
	}
	if err := a.ReadClock(ctx); err != nil {
		return orders.SaleStatus{}, err
	}
	if a.Over(&before.Sale) {
		return orders.SaleStatus{}, failure.New(orders.ErrConflict, "sale %s ended so long ago that Redis has forgotten it", sale)
	}
	a.Suspects.Add(sale, before.Epoch)
	for {
		l, err := a.sales.Reread(ctx, sale)
		if err == nil && l.Epoch > before.Epoch {
			if status, err := a.sales.Sale(ctx, sale); err == nil && status.State != orders.StateRecovering {
				return status, nil
			}
		}
		if !periodic.Pause(ctx, rebuildLook) {
			return orders.SaleStatus{}, fmt.Errorf("%w: sale %s is still being rebuilt: %w", orders.ErrRecovering, sale, cmp.Or(err, ctx.Err()))
		}
	}
}

const rebuildLook = 50 * time.Millisecond

// introduce makes new items available, which cannot have orders yet, in the epoch in which they were stored. An item that
// already has a leader is left to it: it may have orders by then.
func (a *Admin) introduce(ctx context.Context, stored orders.Sale, added []string) error {
	l := &catalog.Listing{Sale: stored}
	isNew := make(map[string]bool, len(added))
	for _, id := range added {
		isNew[id] = true
	}
	runs := make(catalog.ServerRuns)
	var calls []catalog.Call
	for i := range l.Items {
		if !isNew[l.Items[i].ID] {
			continue
		}
		ci := catalog.NewItem(a.Core, l, &l.Items[i])
		fields, err := a.sales.Definition(ctx, ci, runs)
		if err != nil {
			return err
		}
		calls = append(calls, catalog.Call{Item: ci, Args: append([]any{stored.Epoch, core.ForgetAt(&l.Sale).UnixMilli()}, fields...)})
	}
	for _, reply := range a.sales.RunAll(ctx, lua.Introduce, calls) {
		if err := reply.Err(); err != nil {
			return core.Unavailable(err)
		}
	}
	return nil
}

// apply updates Redis and every process to the sale in the database. The change is already stored: if apply fails, the watch
// over the sales repeats it.
func (a *Admin) apply(ctx context.Context, sale string) (orders.SaleStatus, error) {
	l, err := a.sales.Reread(ctx, sale)
	if err != nil {
		return orders.SaleStatus{}, err
	}
	if _, err := a.sales.Compare(ctx, l.All()...); err != nil {
		return orders.SaleStatus{}, err
	}
	for _, ci := range l.Cached {
		ci.Forget()
	}
	a.notifier.Publish(ctx, reading.Notification{Sales: true})
	a.Logger.InfoContext(ctx, "a sale was changed", slog.String("sale", sale), slog.String("switch", string(l.Switch)),
		slog.Int64("revision", l.Revision))
	return a.sales.Sale(ctx, sale)
}

// interruptedBy returns how def would shut the sale, which is open at a time of Redis' clock; nil if it would not, or is not open.
func interruptedBy(s, def *orders.Sale, now time.Time) []string {
	if s.StateAt(now) != orders.StateOpen {
		return nil
	}
	next := *s
	next.StartsAt, next.EndsAt = def.StartsAt, def.EndsAt
	switch next.StateAt(now) {
	case orders.StateScheduled:
		return []string{fmt.Sprintf("sale %s is open, and would be shut until its new start at %s", s.ID, def.StartsAt.Format(time.RFC3339))}
	case orders.StateEnded:
		return []string{fmt.Sprintf("sale %s is open until %s, and would end now, because its new end at %s is past",
			s.ID, s.EndsAt.Format(time.RFC3339), def.EndsAt.Format(time.RFC3339))}
	}
	return nil
}

// identityChange returns what it means for a sale with orders if its RequiresUser changes.
func identityChange(s *orders.Sale) string {
	if s.RequiresUser {
		return fmt.Sprintf("sale %s has orders, all of known users, and would take orders without a user as well", s.ID)
	}
	return fmt.Sprintf("sale %s has orders, and buyers without a user could neither order nor repeat an order any more", s.ID)
}
