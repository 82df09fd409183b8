package orders

import (
	"context"
	"fmt"
	"log/slog"
)

// PutSale creates a sale as a draft, or changes one. It returns an
// *InvalidError or ErrConflict, and is idempotent.
func (s *Service) PutSale(ctx context.Context, def Sale) (status SaleStatus, created bool, err error) {
	if err := def.Validate(); err != nil {
		return SaleStatus{}, false, err
	}
	sale, created, added, err := s.store.PutSale(ctx, def)
	if err != nil {
		return SaleStatus{}, false, err
	}
	status, err = s.apply(ctx, sale.ID, added)
	return status, created, err
}

// SetSwitch publishes, pauses or closes a sale.
func (s *Service) SetSwitch(ctx context.Context, sale string, to Switch) (SaleStatus, error) {
	if err := s.store.SetSwitch(ctx, sale, to); err != nil {
		return SaleStatus{}, err
	}
	return s.apply(ctx, sale, nil)
}

// apply brings Redis and every process to what the database says. The change
// stands already: when this fails, the watch over the sales repeats it.
func (s *Service) apply(ctx context.Context, sale string, added []string) (SaleStatus, error) {
	if err := s.loadCatalog(ctx); err != nil {
		return SaleStatus{}, err
	}
	l, err := s.listing(sale)
	if err != nil {
		return SaleStatus{}, err
	}
	if len(added) > 0 {
		if err := s.introduce(ctx, l, added); err != nil {
			return SaleStatus{}, err
		}
	}
	if err := s.verifySale(ctx, l); err != nil {
		return SaleStatus{}, err
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

// introduce defines items that nobody can have ordered yet, unless a recovery
// that runs at this moment does.
func (s *Service) introduce(ctx context.Context, l *listing, added []string) error {
	_, err := s.store.Lead(ctx, l.ID, func(ctx context.Context) error {
		for _, id := range added {
			sh := l.shelves[id]
			exists, err := s.base.Exists(ctx, sh.keys[0]).Result()
			if err == nil && exists == 0 {
				if err = s.define(ctx, sh); err == nil {
					err = s.base.HDel(ctx, sh.keys[0], "recovering").Err()
				}
			}
			if err != nil {
				return unavailable(err)
			}
		}
		return nil
	})
	return err
}
