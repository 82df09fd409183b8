package commit

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

const (
	returnsMax      = 500
	returnsInterval = time.Second
	returnTimeout   = 2 * time.Second // what is not given back by then is left to the next sweep
	expiryInterval  = time.Second     // between two looks for the next order to expire
	expiryMinimum   = 10 * time.Millisecond
)

// expire ends orders as soon as their time to pay is over, until ctx ends. Any number of workers may run it.
func (lc *Lifecycle) expire(ctx context.Context) error {
	for {
		if lc.Foreign.Load() {
			if !periodic.Pause(ctx, expiryInterval) {
				return ctx.Err()
			}
			continue
		}
		wait := expiryInterval
		expired, err := lc.Store.Expire(ctx, returnsMax)
		if err == nil {
			lc.returnUnits(ctx, expired)
			if len(expired) == returnsMax {
				continue
			}
			wait, err = lc.Store.NextExpiry(ctx, expiryInterval)
		}
		if err != nil && ctx.Err() == nil {
			lc.Logger.WarnContext(ctx, "orders could not be expired", slog.Any("error", err))
			wait = expiryInterval
		}
		if !periodic.Pause(ctx, max(wait, expiryMinimum)) {
			return ctx.Err()
		}
	}
}

// sweepReturns repeats the returns of units that failed before, until ctx ends.
func (lc *Lifecycle) sweepReturns(ctx context.Context) error {
	return periodic.Woken(ctx, returnsInterval, nil, func() {
		if lc.Foreign.Load() {
			return
		}
		list, err := lc.Store.Returns(ctx, "", returnsMax)
		if err != nil {
			if ctx.Err() == nil {
				lc.Logger.WarnContext(ctx, "returned units could not be read", slog.Any("error", err))
			}
			return
		}
		lc.returnUnits(ctx, list)
	})
}

// returnUnits puts the units of orders that ended on sale again, and notifies the processes that sell. What fails is still in the database,
// and the next sweep repeats it.
func (lc *Lifecycle) returnUnits(ctx context.Context, list []storage.Return) {
	if len(list) == 0 {
		return
	}
	// a cancelled request must not delay the units until the next sweep
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	var (
		c       = lc.sales.Catalog.Load()
		args    = make(map[*catalog.Item][]any)
		ids     = make(map[*catalog.Item][]orders.ID)
		over    []orders.ID // Redis need not be updated for these
		changes reading.Notification
	)
	for i := range list {
		r := &list[i]
		if r.Status != "" {
			changes.Orders = append(changes.Orders, reading.Change{ID: r.ID, Status: r.Status})
		}
		var ci *catalog.Item
		l, ok := c.Sales[r.Sale]
		if ok {
			ci = l.Cached[r.Item]
		}
		switch {
		case ci == nil || r.Epoch > l.Epoch:
			continue // this process does not have the item or the epoch yet
		case r.Epoch < l.Epoch, lc.Over(&l.Sale):
			over = append(over, r.ID) // the later epoch was loaded without the order
			continue
		}
		keyless := ""
		if r.WithoutKey {
			keyless = "1"
		}
		if args[ci] == nil {
			args[ci] = []any{ci.SeenBy(lc.Writer)}
		}
		args[ci] = append(args[ci], r.ID.String(), r.BuyerHash, keyless, r.Quantity, joined(r.Units))
		ids[ci] = append(ids[ci], r.ID)
	}
	if len(changes.Orders) > 0 {
		lc.notifier.Publish(ctx, changes)
	}
	for ci, a := range args {
		reply := lua.Return.Run(ctx, lc.Batched, ci.Keys, a...)
		err := lc.sales.Lost(ci, reply)
		ci.Saw(reply.Text())
		switch {
		case err != nil:
			lc.Logger.WarnContext(ctx, "units wait for the sweeper to be on sale again", slog.String("sale", ci.Sale.ID),
				slog.String("item", ci.Item.ID), slog.Any("error", err))
		default:
			over = append(over, ids[ci]...)
			lc.notifier.Publish(ctx, reading.Notification{Item: ci.Item.Number})
		}
	}
	if len(over) == 0 {
		return
	}
	if err := lc.Store.Returned(ctx, over); err != nil { // repeating it is harmless
		lc.Logger.WarnContext(ctx, "returned units are returned again", slog.Any("error", err))
	}
}

func joined(units []int) string {
	texts := make([]string, len(units))
	for i, u := range units {
		texts[i] = strconv.Itoa(u)
	}
	return strings.Join(texts, ",")
}
