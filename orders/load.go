package orders

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const loadChunk = 1000

// load fills the keys of the sale's epoch from the database, readmits the late, and opens them.
func (s *Service) load(ctx context.Context, l *listing, late []Reservation) error {
	for _, sh := range l.shelves {
		if err := s.define(ctx, sh); err != nil {
			return err
		}
	}
	loaders := make(map[string]*loader, len(l.shelves))
	for id, sh := range l.shelves {
		loaders[id] = &loader{s: s, sh: sh, owned: make(map[int]struct{}), pipe: s.base.Pipeline(), marks: make(map[string]mark)}
	}
	if err := s.store.Holdings(ctx, l.ID, func(h Holding) error {
		ld, ok := loaders[h.Item]
		if !ok {
			return fmt.Errorf("%w: an order of item %s, which is not on sale", ErrUnavailable, h.Item)
		}
		return ld.add(ctx, h)
	}); err != nil {
		return err
	}
	for _, ld := range loaders {
		if err := ld.finish(ctx); err != nil {
			return err
		}
	}
	// Nobody else can reserve yet, so what was accepted before comes first. Each
	// is a call of its own: there are at most as many as were in flight.
	for _, r := range late {
		again, _, err := s.readmitTo(ctx, l.shelves[r.Item], r, asLeader)
		if err != nil {
			return err
		}
		if again.Reason != "" {
			if errs := s.commitBatch(ctx, []Reservation{again}, nil); errs[0] != nil {
				return errs[0]
			}
		}
	}
	// A leader that lost its lock on the way must not open what the next one sealed.
	if err := s.loadCatalog(ctx); err != nil {
		return err
	}
	if latest, err := s.listing(l.ID); err != nil || latest.Epoch != l.Epoch {
		return errors.Join(err, fmt.Errorf("%w: another leader raised the epoch", ErrRecovering))
	}
	now, err := s.base.Time(ctx).Result() // of one server of a cluster; the grace it begins is a minute
	if err != nil {
		return unavailable(err)
	}
	for _, sh := range l.shelves {
		if _, err := s.base.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, sh.keys[0], "rebuilt", now.UnixMilli())
			p.HDel(ctx, sh.keys[0], "recovering")
			p.PExpireAt(ctx, sh.keys[0], sh.sale.forgetAt()) // the next leader may just have dropped it
			return nil
		}); err != nil {
			return unavailable(err)
		}
	}
	s.publish(ctx, bulletin{Sales: true})
	return nil
}

// define writes an item's definition, closed until it is loaded.
func (s *Service) define(ctx context.Context, sh *shelf) error {
	run, err := s.runOf(ctx, sh.keys[0], make(map[string]string))
	if err != nil {
		return unavailable(err)
	}
	_, err = s.base.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, sh.keys...) // a leader that died halfway left a part
		p.HSet(ctx, sh.keys[0], append(sh.definition(), "run", run, "recovering", 1, "next", 0,
			"revision", sh.sale.Revision, "forget", sh.sale.forgetAt().UnixMilli()))
		p.PExpireAt(ctx, sh.keys[0], sh.sale.forgetAt())
		return nil
	})
	return unavailable(err)
}

// definition are the fields of an item's hash that the operator decides.
func (sh *shelf) definition() []any {
	return []any{
		"switch", string(sh.sale.Switch),
		"starts", sh.sale.StartsAt.UnixMilli(),
		"ends", sh.sale.EndsAt.UnixMilli(),
		"stock", sh.item.Stock,
		"quota", sh.item.QuotaPerBuyer,
		"in_flight_max", sh.item.InFlightMax,
	}
}

// loader fills one item's keys.
type loader struct {
	s      *Service
	sh     *shelf
	pipe   redis.Pipeliner
	queued int
	owned  map[int]struct{}
	last   int
	marks  map[string]mark // by buyer
}

// mark is what unmark of prelude.lua takes apart.
type mark struct {
	units int
	ids   string
}

func (ld *loader) add(ctx context.Context, h Holding) error {
	keys := ld.sh.keys
	if h.KeyHash != nil {
		ld.pipe.HSet(ctx, keys[4], h.BuyerHash+*h.KeyHash, h.ID.String()+" "+strconv.Itoa(h.Quantity))
		ld.pipe.RPush(ctx, keys[6], holderMark(h.BuyerHash))
	}
	if h.Status.Holds() {
		m := ld.marks[h.BuyerHash]
		m = mark{m.units + h.Quantity, m.ids + " " + h.ID.String()}
		ld.marks[h.BuyerHash] = m
		ld.pipe.HSet(ctx, keys[5], h.BuyerHash, strconv.Itoa(m.units)+m.ids)
	}
	for _, u := range h.Units {
		ld.owned[u] = struct{}{}
		ld.last = max(ld.last, u)
	}
	if ld.queued++; ld.queued < loadChunk {
		return nil
	}
	return ld.flush(ctx)
}

func (ld *loader) flush(ctx context.Context) error {
	ld.queued = 0
	_, err := ld.pipe.Exec(ctx)
	return unavailable(err)
}

// finish hands out again what lies between the units sold, and lets the keys expire with the sale's memory.
func (ld *loader) finish(ctx context.Context) error {
	keys := ld.sh.keys
	for u := 1; u <= ld.last; u++ {
		if _, ok := ld.owned[u]; ok {
			continue
		}
		ld.pipe.SAdd(ctx, keys[1], u)
		if ld.queued++; ld.queued == loadChunk {
			if err := ld.flush(ctx); err != nil {
				return err
			}
		}
	}
	ld.pipe.HSet(ctx, keys[0], "next", ld.last)
	for _, key := range keys {
		ld.pipe.PExpireAt(ctx, key, ld.sh.sale.forgetAt())
	}
	return ld.flush(ctx)
}
