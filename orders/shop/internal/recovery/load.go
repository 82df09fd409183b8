package recovery

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
)

// load fills the keys of the leader's epoch from the database.
func (r *recovery) load(ctx context.Context) error {
	loaders := make(map[string]*loader, len(r.l.Items))
	for id, ci := range r.l.Cached {
		loaders[id] = &loader{r: r, ci: ci}
	}
	if err := r.Store.Holdings(ctx, r.lead.Sale, func(h storage.Holding) error {
		ld, ok := loaders[h.Item]
		if !ok {
			return nil // the item was stored after the epoch was raised, and introduced into it
		}
		return ld.add(ctx, h)
	}); err != nil {
		return err
	}
	var (
		part  []*loader
		calls []catalog.Call
		rows  int
	)
	send := func() error {
		for i, cmd := range r.sales.RunAll(ctx, lua.Load, calls) {
			if err := part[i].loaded(cmd); err != nil {
				return err
			}
		}
		part, calls, rows = nil, nil, 0
		return nil
	}
	for _, ld := range loaders {
		if err := ld.addFree(ctx); err != nil {
			return err
		}
		waiting := ld.waiting()
		if rows+waiting > core.LoadChunk || len(part) == core.PerTrip {
			if err := send(); err != nil {
				return err
			}
		}
		call, err := ld.call(ctx)
		if err != nil {
			return err
		}
		part, calls, rows = append(part, ld), append(calls, call), rows+waiting
	}
	return send()
}

// reserveLate moves late orders into the leader's epoch and commits them, while no other process can reserve. It returns those that
// the database did not have. Each order takes one call: there are at most as many as were in flight.
func (r *recovery) reserveLate(ctx context.Context, list []orders.Reservation) ([]orders.Reservation, error) {
	seen := make(map[orders.ID]struct{}, len(list))
	ids := make([]orders.ID, 0, len(list))
	distinct := list[:0]
	for _, late := range list {
		if _, twice := seen[late.ID]; !twice { // found in Redis and also handed over
			seen[late.ID] = struct{}{}
			ids, distinct = append(ids, late.ID), append(distinct, late)
		}
	}
	late, err := r.Uncommitted(ctx, distinct)
	if err != nil {
		return nil, err
	}
	var toCommit []orders.Reservation
	for _, l := range late {
		ci, ok := r.l.Cached[l.Item]
		if !ok {
			return nil, fmt.Errorf("%w: late order %s is of item %s/%s, which is not on sale", orders.ErrUnavailable, r.Shown(l.ID, l.Buyer),
				l.Sale, l.Item)
		}
		again, status, err := r.committer.ReserveLateIn(ctx, ci, l, reserve.Mode(r.lead.Token))
		if err != nil {
			return nil, err
		}
		if status == "" {
			toCommit = append(toCommit, again)
		}
	}
	refused, err := r.committer.CommitAll(ctx, toCommit)
	if err == nil && len(refused) > 0 {
		err = core.ErrOvertaken
	}
	if err != nil {
		return nil, err
	}
	return late, r.Store.DeleteLate(ctx, ids)
}

// loader fills one item's keys.
type loader struct {
	r     *recovery
	ci    *catalog.Item
	owned bitset // units
	last  int

	live                []storage.Holding // orders that hold units, of the next call of load.lua
	keys, holders, free []any             // of the next call of load.lua
}

// bitset is a set of small numbers.
type bitset []uint64

func (s *bitset) add(n int) {
	if missing := n/64 + 1 - len(*s); missing > 0 {
		*s = append(*s, make(bitset, missing)...)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s bitset) has(n int) bool { return n/64 < len(s) && s[n/64]&(1<<(n%64)) != 0 }

func (ld *loader) add(ctx context.Context, h storage.Holding) error {
	if h.KeyHash != nil {
		ld.keys = append(ld.keys, h.BuyerHash+*h.KeyHash, h.ID.String()+" "+strconv.Itoa(h.Quantity))
		ld.holders = append(ld.holders, catalog.HolderPrefix(h.BuyerHash))
	}
	if h.Status.OwnsUnits() {
		ld.live = append(ld.live, h)
	}
	for _, u := range h.Units {
		ld.owned.add(u)
		ld.last = max(ld.last, u)
	}
	return ld.flush(ctx)
}

// buyers returns the entries of the buyers of the live orders: those that Redis has from earlier calls, with the orders added. It reads
// them, because a sale may have more buyers than a process has memory.
func (ld *loader) buyers(ctx context.Context) ([]any, error) {
	if len(ld.live) == 0 {
		return nil, nil
	}
	buyers := make([]string, len(ld.live))
	for i, h := range ld.live {
		buyers[i] = h.BuyerHash
	}
	found, err := ld.r.Base.HMGet(ctx, ld.ci.Keys[core.BuyersKey], buyers...).Result()
	if err != nil {
		return nil, core.Unavailable(err)
	}
	entries := make(map[string]catalog.BuyerEntry, len(buyers))
	list := make([]any, 0, 2*len(buyers))
	for i, h := range ld.live {
		e, ok := entries[h.BuyerHash]
		if text, _ := found[i].(string); !ok && text != "" {
			e = catalog.ParseBuyerEntry(text)
		}
		e = catalog.BuyerEntry{Units: e.Units + h.Quantity, IDs: strings.TrimPrefix(e.IDs+" "+h.ID.String(), " ")}
		entries[h.BuyerHash] = e
		list = append(list, h.BuyerHash, strconv.Itoa(e.Units)+" "+e.IDs)
	}
	return list, nil
}

// waiting returns how many rows wait for the next call.
func (ld *loader) waiting() int { return max(len(ld.holders), len(ld.live), len(ld.free)) }

// flush runs load.lua if many rows are waiting.
func (ld *loader) flush(ctx context.Context) error {
	if ld.waiting() < core.LoadChunk {
		return nil
	}
	call, err := ld.call(ctx)
	if err != nil {
		return err
	}
	return ld.loaded(lua.Load.Run(ctx, ld.r.Base, ld.ci.KeysWithLead(), call.Args...))
}

// call returns the next call of load.lua, with the rows that are waiting.
func (ld *loader) call(ctx context.Context) (catalog.Call, error) {
	buyers, err := ld.buyers(ctx)
	if err != nil {
		return catalog.Call{}, err
	}
	args := []any{ld.r.lead.Token, ld.ci.SeenBy(ld.r.Writer), ld.last}
	for _, list := range [][]any{ld.keys, ld.holders, buyers, ld.free} {
		args = append(append(args, len(list)), list...)
	}
	ld.keys, ld.holders, ld.live, ld.free = ld.keys[:0], ld.holders[:0], ld.live[:0], ld.free[:0]
	return catalog.Call{Item: ld.ci, Args: args}, nil
}

// loaded reads the reply of load.lua.
func (ld *loader) loaded(r redisscript.Reply) error {
	if r.Err() == nil && r.Len() == 0 {
		return core.ErrOvertaken
	}
	ld.ci.Saw(r.Text())
	return core.Unavailable(r.Err())
}

// addFree makes the units below the highest one sold available again if no order owns them.
func (ld *loader) addFree(ctx context.Context) error {
	for u := 1; u <= ld.last; u++ {
		if ld.owned.has(u) {
			continue
		}
		ld.free = append(ld.free, u)
		if err := ld.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}
