package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Installation reads the row.
func (s *Store) Installation(ctx context.Context) (in storage.Installation, err error) {
	err = s.db.One(ctx, `SELECT id, namespace FROM installation`, []any{&in.ID, &in.Namespace})
	if errors.Is(err, sql.ErrNoRows) {
		return storage.Installation{}, nil
	}
	return in, wrap("read the installation", err)
}

// Install writes the row.
func (s *Store) Install(ctx context.Context, namespace string, replace bool) error {
	_, err := s.db.Exec(ctx, `
		INSERT INTO installation (one, id, namespace) VALUES (1, lower(hex(randomblob(16))), $1)
		ON CONFLICT (one) DO UPDATE SET id = excluded.id, namespace = excluded.namespace WHERE $2`, namespace, replace)
	return wrap("write the installation", err)
}
