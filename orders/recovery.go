package orders

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// retryRecovery is the pause after an attempt that failed. Each attempt raises
// the epoch, and those who ask for the sale would have the next one begin at once.
const retryRecovery = 200 * time.Millisecond

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
				select {
				case <-ctx.Done():
				case <-time.After(retryRecovery):
				}
			}
			return ctx.Err() == nil
		})
	}
}

// recoverSale makes one process, while no other does, rebuild a sale that
// Redis forgot. It raises the epoch, which abandons all keys of the old one;
// has everybody who is alive hand over what they remember; ends that, which
// waits for the commits under the old epoch; and fills the new keys from the
// database.
func (s *Service) recoverSale(ctx context.Context, sale string) error {
	_, err := s.tryLead(ctx, sale, func(ctx context.Context) error {
		l, err := s.reread(ctx, sale)
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
		if l, err = s.reread(ctx, sale); err != nil {
			return err
		}
		s.publish(ctx, bulletin{Sales: true})
		abandoned, err := s.sealBefore(ctx, l)
		if err != nil {
			return err
		}
		late, err := s.commitAll(ctx, abandoned)
		if err != nil {
			return err
		}
		if err := s.awaitHandOver(ctx, l); err != nil {
			return err
		}
		if l, err = s.reread(ctx, sale); err != nil {
			return err
		}
		handedOver := time.Now()
		if err := s.load(ctx, l, late); err != nil {
			return err
		}
		s.dropBefore(ctx, l)
		s.opts.Logger.WarnContext(ctx, "a sale was rebuilt from the database", slog.String("sale", sale), slog.Int64("epoch", l.Epoch),
			slog.Int("uncommitted", len(abandoned)), slog.Int("late", len(late)),
			slog.Int64("hand_over_ms", handedOver.Sub(began).Milliseconds()), slog.Int64("took_ms", time.Since(began).Milliseconds()))
		return s.compare(ctx, l.all()...)
	})
	return err
}

func (s *Service) reread(ctx context.Context, sale string) (*listing, error) {
	if err := s.loadCatalog(ctx); err != nil {
		return nil, err
	}
	return s.listing(sale)
}

// tryLead runs fn as the sale's leader, or returns false when another process
// leads it. A process leads one sale at a time: leading holds a connection to
// the database, and what is done meanwhile needs another one.
func (s *Service) tryLead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	select {
	case s.leading <- struct{}{}:
		defer func() { <-s.leading }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return s.store.Lead(ctx, sale, fn)
}

// intact tells whether Redis knows every item of the sale that it should.
func (s *Service) intact(ctx context.Context, l *listing) (bool, error) {
	known, err := s.known(ctx, l.all())
	for i, sh := range l.all() {
		if err == nil && known[i] < 0 && !sh.forgottenAt(time.Now()) {
			return false, nil
		}
	}
	return err == nil, err
}

// sealBefore closes the keys of earlier epochs, and returns what was reserved
// there and never committed: each order once, as the latest epoch has it. A
// leader may have died before it could drop the keys that it took orders from,
// and a scan may meet one twice.
func (s *Service) sealBefore(ctx context.Context, l *listing) ([]Reservation, error) {
	var abandoned []Reservation
	at := make(map[ID]int)
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
					r, err := ParseReservation([]byte(pairs[i]))
					if err != nil { // it stands in the log; it must not keep the sale closed
						s.opts.Logger.ErrorContext(ctx, "a reservation cannot be read", slog.String("order_id", pairs[i-1]),
							slog.String("reservation", pairs[i]), slog.Any("error", err))
						continue
					}
					if i, twice := at[r.ID]; twice {
						abandoned[i] = r
						continue
					}
					at[r.ID] = len(abandoned)
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

// dropBefore frees the memory of earlier epochs. What is missing refuses as what is sealed does.
func (s *Service) dropBefore(ctx context.Context, l *listing) {
	for epoch := int64(1); epoch < l.Epoch; epoch++ {
		for _, it := range l.Items {
			if err := s.base.Unlink(ctx, s.itemKeys(l.ID, it.ID, epoch)...).Err(); err != nil {
				s.opts.Logger.WarnContext(ctx, "keys of an earlier epoch stay until they expire", slog.String("sale", l.ID), slog.Any("error", err))
				return
			}
		}
	}
}
