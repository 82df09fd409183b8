package postgres

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Eager tries each batch as a plain one.
type Eager struct{ *Store }

// Commit implements storage.Store.
func (s Eager) Commit(ctx context.Context, batch []orders.Reservation) ([]storage.Verdict, error) {
	return s.TryPlain(true).Commit(ctx, batch)
}

// TryPlain makes Commit try the next batches as plain ones, or none.
func (s *Store) TryPlain(may bool) *Store {
	s.plain.mu.Lock()
	defer s.plain.mu.Unlock()
	if s.plain.next = (time.Time{}); !may {
		s.plain.next = time.Now().Add(time.Hour)
	}
	return s
}
