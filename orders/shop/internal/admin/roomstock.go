package admin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/internal/stock"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// RoomStock is what a waiting room may ask and do: it is a waitingroom.Stock. Users are the names that orders have.
type RoomStock struct {
	*core.Core
	sales *catalog.Watch
	admin *Admin

	repairing atomic.Bool
}

// NewRoomStock returns the connection of waiting rooms with the sales.
func NewRoomStock(c *core.Core, sales *catalog.Watch, admin *Admin) *RoomStock {
	return &RoomStock{Core: c, sales: sales, admin: admin}
}

// Quota returns how many units of an item a user may order. It reads the database if this process does not know the item yet: the
// process that made the room may have made the sale a moment before.
func (t *RoomStock) Quota(ctx context.Context, sale, item string) (int, error) {
	l, err := t.sales.Find(ctx, sale)
	if err != nil {
		return 0, err
	}
	it, ok := l.Item(item)
	if !ok {
		if l, err = t.sales.Reread(ctx, sale); err != nil {
			return 0, err
		}
		if it, ok = l.Item(item); !ok {
			return 0, orders.ErrUnknownItem
		}
	}
	return it.QuotaPerBuyer, nil
}

// Guard makes orders of an item need a turn of a room. It returns ErrUnknownSale, ErrUnknownItem, or ErrConflict if the item has
// another room.
func (t *RoomStock) Guard(ctx context.Context, sale, item, room string) error {
	return t.setRoom(ctx, sale, item, "", room)
}

// Unguard ends that, unless the item has another room or none, or its sale ended so long ago that it is not read any more.
func (t *RoomStock) Unguard(ctx context.Context, sale, item, room string) error {
	l, err := t.sales.Reread(ctx, sale)
	if errors.Is(err, orders.ErrUnknownSale) {
		return nil
	} else if err != nil {
		return err
	}
	if it, ok := l.Item(item); !ok || it.Room != room {
		return nil
	}
	if err = t.setRoom(ctx, sale, item, room, ""); errors.Is(err, orders.ErrConflict) { // it has got another one meanwhile
		return nil
	}
	return err
}

func (t *RoomStock) setRoom(ctx context.Context, sale, item, from, to string) error {
	l, err := t.sales.Reread(ctx, sale)
	if err != nil {
		return err
	}
	if _, ok := l.Item(item); !ok {
		return orders.ErrUnknownItem
	}
	if err := t.Store.SetRoom(ctx, sale, item, from, to); err != nil {
		return err
	}
	_, err = t.admin.apply(ctx, sale)
	return err
}

// Admit lets a user, who was admitted at since, order up to quantity units while it is valid, once. A user who has used it already is left
// alone, and so is one from whom Revoke has taken it back.
func (t *RoomStock) Admit(ctx context.Context, sale, item, room, user string, since time.Time, quantity int, valid time.Duration) error {
	ci, err := t.item(ctx, sale, item)
	if err != nil {
		return err
	}
	if used, err := t.usedBefore(ctx, ci, []string{user}, []time.Time{since}); err != nil || used[0] != "" {
		return err
	}
	_, err = t.admit(ctx, ci, room, user, since, max(valid.Milliseconds(), 1), quantity)
	return err
}

// clockSkew is how far Redis' clock, by which orders are accepted, may be behind that of the waiting room.
const clockSkew = 30 * time.Second

// usedBefore returns for each user the order since then that the database has, or "". If Redis has lost the sale, it may have forgotten who
// used the right to order, while the database has all orders of earlier epochs; otherwise it returns "" for all.
func (t *RoomStock) usedBefore(ctx context.Context, ci *catalog.Item, users []string, since []time.Time) (used []string, err error) {
	used = make([]string, len(users))
	if ci.Sale.Epoch <= 1 || len(users) == 0 {
		return used, nil
	}
	hashes := make([]string, len(users))
	for i, user := range users {
		hashes[i] = core.HashOf(ci.Sale.Salt, core.HashUser, user)
	}
	latest, err := t.Store.Latest(ctx, ci.Sale.ID, ci.Item.ID, hashes)
	if err != nil {
		return nil, err
	}
	for i := range users {
		if o, ok := latest[hashes[i]]; ok && o.AcceptedAt.After(since[i].Add(-clockSkew)) {
			used[i] = o.ID.String()
		}
	}
	return used, nil
}

// Revoke takes back what Admit gave to a user who was admitted at since, or is about to give, and reports whether it has been used.
func (t *RoomStock) Revoke(ctx context.Context, sale, item, room, user string, since time.Time) (used bool, err error) {
	ci, err := t.item(ctx, sale, item)
	if err != nil {
		return false, err
	}
	return t.admit(ctx, ci, room, user, since, 0, 0)
}

func (t *RoomStock) admit(
	ctx context.Context, ci *catalog.Item, room, user string, since time.Time, withinMS int64, quantity int,
) (used bool, err error) {
	return core.Within(ctx, t.Core, func(ctx context.Context) (bool, error) {
		r := lua.Admit.Run(ctx, t.Batched, ci.Keys, core.HashOf(ci.Sale.Salt, core.HashUser, user), withinMS, quantity, room, since.UnixMilli(),
			ci.SeenBy(t.Writer))
		if err := t.sales.Lost(ci, r); err != nil {
			return false, err
		}
		ci.Saw(r.Text())
		used := r.Int() == 0
		return used, r.Err()
	})
}

// item returns an item whose Redis has been verified to have it.
func (t *RoomStock) item(ctx context.Context, sale, item string) (*catalog.Item, error) {
	l, err := t.sales.Find(ctx, sale)
	if err != nil {
		return nil, err
	}
	ci, ok := l.Cached[item]
	if !ok {
		return nil, orders.ErrUnknownItem
	}
	_, err = t.sales.Verified(ctx, ci)
	return ci, err
}

// Look returns the free units of an item, whether no more will be added, how long its accepted orders wait for their commit (the 95th
// percentile of those that wait, at least the third longest; 0: fewer wait), and for each user, who was admitted at since, the order that
// used the right to order, "revoked" if Revoke has taken it back, or "". It returns ErrConflict for an item whose orders need no
// turn of the room.
func (t *RoomStock) Look(ctx context.Context, sale, item, room string, users []string, since []time.Time) (stock.Supply, error) {
	ci, err := t.item(ctx, sale, item)
	if err != nil {
		return stock.Supply{}, err
	}
	// Before Redis is asked: whose order is found here has no free unit there any more.
	before, err := t.usedBefore(ctx, ci, users, since)
	if err != nil {
		return stock.Supply{}, err
	}
	args := make([]any, 2, 2+len(users))
	args[0], args[1] = room, ci.SeenBy(t.Writer)
	for _, user := range users {
		args = append(args, core.HashOf(ci.Sale.Salt, core.HashUser, user))
	}
	d, err := core.Within(ctx, t.Core, func(ctx context.Context) (redisscript.Reply, error) {
		r := lua.Supply.Run(ctx, t.Batched, ci.Keys, args...)
		return r, t.sales.Lost(ci, r)
	})
	if err != nil {
		return stock.Supply{}, err
	}
	if guarded := d.Int() == 1; !guarded || ci.Item.Room != room {
		if ci.Item.Room == room {
			t.repair(sale, item, room)
		}
		return stock.Supply{}, failure.New(orders.ErrConflict, "orders of item %s/%s do not need a turn of room %s", sale, item, room)
	}
	supply := stock.Supply{Free: int(d.Int()), Final: ci.Item.Final, Sale: stock.SaleState(d.Text()), Used: make([]string, len(users))}
	if id, err := orders.ParseID(d.Text()); err == nil {
		now, _ := t.Clock.Now()
		supply.Lag = max(0, now.Sub(id.Time()))
	}
	for i := range users {
		order := d.Text()
		if taken, ok := strings.CutPrefix(order, "revoked "); ok {
			order = ""
			if ms, err := strconv.ParseInt(taken, 10, 64); err == nil && ms >= since[i].UnixMilli() {
				order = stock.Revoked
			}
		}
		supply.Used[i] = cmp.Or(order, before[i])
	}
	return supply, core.Unavailable(d.Err())
}

// repair writes the item's definition to Redis again, in the background: a process of a version that does not know rooms has written it.
func (t *RoomStock) repair(sale, item, room string) {
	if !t.repairing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer t.repairing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), repairTimeout)
		defer cancel()
		if err := t.Guard(ctx, sale, item, room); err != nil {
			t.Logger.WarnContext(ctx, "orders of an item need no turn of its waiting room", slog.String("sale", sale), slog.String("item", item),
				slog.Any("error", err))
		}
	}()
}

const repairTimeout = 5 * time.Second

// Unsettled reports whether units of an item are free, or may be again: they are held by orders that may still end unpaid, or are
// about to be returned. It reads in the order in which units move.
func (t *RoomStock) Unsettled(ctx context.Context, sale, item string) (bool, error) {
	ci, err := t.item(ctx, sale, item)
	if err != nil {
		return false, err
	}
	uncommitted, err := core.Within(ctx, t.Core,
		func(ctx context.Context) (int64, error) { return catalog.CountOutbox(ctx, t.Batched, ci).Result() })
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		err = t.sales.Forgotten(ci)
	}
	if err != nil || uncommitted > 0 {
		return true, err
	}
	if unsettled, err := t.Store.Unsettled(ctx, sale, item); err != nil || unsettled {
		return true, err
	}
	supply, err := t.Look(ctx, sale, item, ci.Item.Room, nil, nil)
	return supply.Free > 0, err
}
