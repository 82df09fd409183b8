package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const loadChunk = 1000

// suspectForgotten has somebody look whether Redis still knows the item.
func (s *Service) suspectForgotten(sh *shelf) {
	if _, waiting := s.suspects.LoadOrStore(sh.sale.ID, struct{}{}); !waiting {
		poke(s.suspected)
	}
}

// verifySale makes sure that the server that holds each item is the one it
// was loaded into, and that it has the latest definition.
func (s *Service) verifySale(ctx context.Context, l *listing) error {
	for _, sh := range l.shelves {
		if sh.forgottenAt(time.Now()) {
			continue
		}
		generation := s.fence.generation.Load()
		known, revision, err := s.knows(ctx, sh)
		switch {
		case err != nil:
			return err
		case !known:
			s.suspectForgotten(sh)
			continue
		case revision < sh.sale.Revision:
			if err := s.configure(ctx, sh); err != nil {
				return err
			}
			sh.forget()
		}
		if sh.generation.Swap(generation) != generation {
			sh.forget()
		}
	}
	return nil
}

// verified returns the fence's generation once Redis is known to be the one
// that the item was loaded into. ErrRecovering says that it is not.
func (s *Service) verified(ctx context.Context, sh *shelf) (generation int64, err error) {
	generation = s.fence.generation.Load()
	if sh.generation.Load() == generation {
		return generation, nil
	}
	err = s.within(ctx, func(ctx context.Context) error { return s.verifySale(ctx, sh.sale) })
	if err == nil && sh.generation.Load() != s.fence.generation.Load() {
		err = ErrRecovering
	}
	return sh.generation.Load(), err
}

// knows tells whether the server that holds an item now is the one it was loaded into.
func (s *Service) knows(ctx context.Context, sh *shelf) (known bool, revision int64, err error) {
	run, err := s.runOf(ctx, sh.keys[0])
	if err != nil {
		return false, 0, unavailable(err)
	}
	it, err := s.base.HMGet(ctx, sh.keys[0], "run", "recovering", "revision").Result()
	if err != nil {
		return false, 0, unavailable(err)
	}
	if it[0] != run || it[1] != nil {
		return false, 0, nil
	}
	d := decoder{reply: it[2:]}
	return true, d.int64(), d.err
}

// recoverSales rebuilds sales that Redis forgot, until ctx ends.
func (s *Service) recoverSales(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.suspected:
		}
		s.suspects.Range(func(key, _ any) bool {
			s.suspects.Delete(key)
			sale := key.(string)
			if err := s.recoverSale(ctx, sale); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "a sale could not be rebuilt yet", slog.String("sale", sale), slog.Any("error", err))
			}
			return ctx.Err() == nil
		})
	}
}

// recoverSale makes one process, while no other does, rebuild a sale that
// Redis forgot: it raises the epoch, which abandons all keys of the old one
// and waits for the commits under it, and fills the new keys from the database.
func (s *Service) recoverSale(ctx context.Context, sale string) error {
	_, err := s.store.Lead(ctx, sale, func(ctx context.Context) error {
		if err := s.loadCatalog(ctx); err != nil {
			return err
		}
		l, err := s.listing(sale)
		if err != nil {
			return err
		}
		if intact, err := s.intact(ctx, l); intact || err != nil {
			return err // another process was first, or nothing can be said
		}
		began := time.Now()
		if err := s.store.RaiseEpoch(ctx, sale); err != nil {
			return err
		}
		if err := s.loadCatalog(ctx); err != nil {
			return err
		}
		if l, err = s.listing(sale); err != nil {
			return err
		}
		abandoned, err := s.sealBefore(ctx, l)
		if err != nil {
			return err
		}
		if err := s.load(ctx, l, abandoned); err != nil {
			return err
		}
		s.opts.Logger.WarnContext(ctx, "a sale was rebuilt from the database", slog.String("sale", sale),
			slog.Int64("epoch", l.Epoch), slog.Int("uncommitted", len(abandoned)), slog.Duration("took", time.Since(began)))
		return nil
	})
	if l, lerr := s.listing(sale); err == nil && lerr == nil {
		err = s.verifySale(ctx, l)
	}
	return err
}

// intact tells whether Redis knows every item of the sale.
func (s *Service) intact(ctx context.Context, l *listing) (bool, error) {
	for _, sh := range l.shelves {
		if known, _, err := s.knows(ctx, sh); !known || err != nil {
			return false, err
		}
	}
	return true, nil
}

// sealBefore closes the keys of earlier epochs, and returns what was reserved there and never committed.
func (s *Service) sealBefore(ctx context.Context, l *listing) ([]Reservation, error) {
	var abandoned []Reservation
	for epoch := int64(1); epoch < l.Epoch; epoch++ {
		for _, it := range l.Items {
			keys := s.itemKeys(l.ID, it.ID, epoch)
			for cursor := "0"; ; {
				reply, err := sealScript.Run(ctx, s.rdb, keys, cursor).Slice()
				if err != nil {
					return nil, unavailable(err)
				}
				d := decoder{reply: reply}
				cursor = d.string()
				pairs := d.strings()
				if d.err != nil {
					return nil, d.err
				}
				for i := 1; i < len(pairs); i += 2 {
					r, err := parseReservation([]byte(pairs[i]))
					if err != nil {
						return nil, fmt.Errorf("orders: reservation of order %s: %w", pairs[i-1], err)
					}
					abandoned = append(abandoned, r)
				}
				if cursor == "0" {
					break
				}
			}
		}
	}
	return s.uncommitted(ctx, abandoned)
}

// uncommitted are those of the reservations that the database does not have.
func (s *Service) uncommitted(ctx context.Context, list []Reservation) ([]Reservation, error) {
	var left []Reservation
	for part := range slices.Chunk(list, loadChunk) {
		ids := make([]ID, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		found, err := s.store.Statuses(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, r := range part {
			if _, ok := found[r.ID]; !ok {
				left = append(left, r)
			}
		}
	}
	return left, nil
}

// load fills the keys of the sale's epoch from the database, and opens them.
func (s *Service) load(ctx context.Context, l *listing, abandoned []Reservation) error {
	for _, sh := range l.shelves {
		if err := s.define(ctx, sh); err != nil {
			return err
		}
	}
	loaders := make(map[string]*loader, len(l.shelves))
	for id, sh := range l.shelves {
		loaders[id] = &loader{s: s, sh: sh, owned: make(map[int]struct{}), pipe: s.base.Pipeline(), buyers: make(map[string]int)}
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
	// Nobody else can reserve yet, so what was accepted before comes first.
	for _, r := range abandoned {
		again, _, err := s.readmitTo(ctx, l.shelves[r.Item], r)
		if err != nil {
			return err
		}
		if again.Reason != "" {
			if errs := s.commitBatch(ctx, []Reservation{again}); errs[0] != nil {
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
	now, _ := s.clock.now()
	for _, sh := range l.shelves {
		if _, err := s.base.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, sh.keys[0], "rebuilt", now.UnixMilli())
			p.HDel(ctx, sh.keys[0], "recovering")
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
	run, err := s.runOf(ctx, sh.keys[0])
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
	buyers map[string]int
}

func (ld *loader) add(ctx context.Context, h Holding) error {
	keys := ld.sh.keys
	if h.KeyHash != nil {
		ld.pipe.HSet(ctx, keys[4], h.BuyerHash+*h.KeyHash, h.ID.String()+" "+strconv.Itoa(h.Quantity))
		ld.pipe.RPush(ctx, keys[6], holderMark(h.BuyerHash))
	}
	if h.Status.Holds() {
		ld.buyers[h.BuyerHash] += h.Quantity
		ld.pipe.HSet(ctx, keys[5], h.BuyerHash, strconv.Itoa(ld.buyers[h.BuyerHash])+" "+h.ID.String())
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
