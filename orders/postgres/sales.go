package postgres

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Differing lists the sales only if their fingerprint is not that of the known ones.
func (s *Store) Differing(ctx context.Context, known *storage.KnownSales) ([]string, error) {
	var (
		fingerprint string
		standby     bool
	)
	err := s.db.One(ctx, `
		SELECT encode(sha256(convert_to(coalesce(string_agg(sale || ' ' || revision || ' ' || epoch_token, ',' ORDER BY sale COLLATE "C"), ''), 'UTF8')), 'hex'),
		       {standby}
		FROM sales WHERE `+sqlstore.Recent, []any{&fingerprint, &standby}, storage.LongAgo(time.Now()))
	if err == nil && standby {
		err = storage.ErrStandby
	}
	if err != nil || fingerprint == known.Fingerprint {
		return nil, wrap("sales", err)
	}
	return s.common.Differing(ctx, known)
}
