package orders

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// longOver is how long ago a sale that is defined now may have ended.
const longOver = 24 * time.Hour

// PutSale creates a sale as a draft, or changes one. It returns an
// *InvalidError or ErrConflict, and is idempotent.
func (s *Service) PutSale(ctx context.Context, def Sale) (status SaleStatus, created bool, err error) {
	if err := def.Validate(); err != nil {
		return SaleStatus{}, false, err
	}
	if time.Since(def.EndsAt) > longOver {
		return SaleStatus{}, false, &InvalidError{Location: "body.ends_at", Message: "is more than a day ago; orders of the sale may still be under way"}
	}
	def.StartsAt, def.EndsAt = def.StartsAt.UTC().Truncate(time.Millisecond), def.EndsAt.UTC().Truncate(time.Millisecond)
	// As its leader: what is in the database and not yet in Redis would look
	// forgotten, and be recovered by somebody else.
	err = s.lead(ctx, def.ID, func(ctx context.Context) error {
		var added []string
		if _, created, added, err = s.store.PutSale(ctx, def); err != nil {
			return err
		}
		return s.introduce(ctx, def.ID, added)
	})
	if err != nil {
		return SaleStatus{}, false, err
	}
	status, err = s.apply(ctx, def.ID)
	return status, created, err
}

// SetSwitch publishes, pauses or closes a sale.
func (s *Service) SetSwitch(ctx context.Context, sale string, to Switch) (SaleStatus, error) {
	if to == SwitchDraft {
		return SaleStatus{}, fmt.Errorf("%w: sale %s is published, and nothing goes back to draft", ErrConflict, sale)
	}
	if err := s.store.SetSwitch(ctx, sale, to); err != nil {
		return SaleStatus{}, err
	}
	return s.apply(ctx, sale)
}

// lead runs fn as the sale's leader, waiting for another one to finish.
func (s *Service) lead(ctx context.Context, sale string, fn func(context.Context) error) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		led, err := s.tryLead(ctx, sale, fn)
		if led || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: another process has been changing sale %s for %v", ErrUnavailable, sale, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// introduce defines items that nobody can have ordered yet.
func (s *Service) introduce(ctx context.Context, sale string, added []string) error {
	if len(added) == 0 {
		return nil
	}
	if err := s.loadCatalog(ctx); err != nil {
		return err
	}
	l, err := s.listing(sale)
	if err != nil {
		return err
	}
	for _, id := range added {
		sh := l.shelves[id]
		if err := s.define(ctx, sh); err != nil {
			return err
		}
		if err := s.base.HDel(ctx, sh.keys[0], "recovering").Err(); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// apply brings Redis and every process to what the database says. The change
// stands already: when this fails, the watch over the sales repeats it.
func (s *Service) apply(ctx context.Context, sale string) (SaleStatus, error) {
	if err := s.loadCatalog(ctx); err != nil {
		return SaleStatus{}, err
	}
	l, err := s.listing(sale)
	if err != nil {
		return SaleStatus{}, err
	}
	if err := s.compare(ctx, l.all()...); err != nil {
		return SaleStatus{}, err
	}
	for _, sh := range l.shelves {
		sh.forget()
	}
	s.publish(ctx, bulletin{Sales: true})
	s.opts.Logger.InfoContext(ctx, "a sale was changed", slog.String("sale", sale), slog.String("switch", string(l.Switch)), slog.Int64("revision", l.Revision))
	return s.Sale(ctx, sale)
}

// configure brings one item in Redis to the catalog's revision.
func (s *Service) configure(ctx context.Context, sh *shelf) error {
	args := append([]any{sh.sale.Revision, sh.sale.forgetAt().UnixMilli()}, sh.definition()...)
	reply, err := configureScript.Run(ctx, s.rdb, sh.keys, args...).Int()
	switch {
	case err != nil:
		return unavailable(err)
	case reply < 0:
		s.suspectForgotten(sh)
		return fmt.Errorf("%w: item %s/%s", ErrRecovering, sh.sale.ID, sh.item.ID)
	}
	return nil
}
