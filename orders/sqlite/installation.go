package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/tidegate/tidegate/orders"
)

// Installation reads the row.
func (s *Store) Installation(ctx context.Context) (in orders.Installation, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT id, namespace FROM installation`).Scan(&in.ID, &in.Namespace)
	if errors.Is(err, sql.ErrNoRows) {
		return orders.Installation{}, nil
	}
	return in, wrap("read the installation", err)
}

// Install writes the row.
func (s *Store) Install(ctx context.Context, namespace string, replace bool) error {
	return s.exec(ctx, "write the installation", `
		INSERT INTO installation (one, id, namespace) VALUES (1, lower(hex(randomblob(16))), ?1)
		ON CONFLICT (one) DO UPDATE SET id = excluded.id, namespace = excluded.namespace WHERE ?2`, namespace, replace)
}
