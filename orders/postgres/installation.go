package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders/internal/storage"
)

const databaseOID = `(SELECT oid::bigint FROM pg_database WHERE datname = current_database())`

// A rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// place returns where the database is. Permissions are checked before a statement runs, so a role that may not ask for the system
// identifier needs a statement without it.
func place(ctx context.Context, q rowQuerier) (p storage.Place, err error) {
	var allowed bool
	if err = q.QueryRow(ctx, `SELECT has_function_privilege('pg_control_system()', 'EXECUTE'), `+databaseOID).Scan(&allowed,
		&p.Database); err == nil && allowed {
		err = q.QueryRow(ctx, `SELECT system_identifier FROM pg_control_system()`).Scan(&p.System)
	}
	return p, err
}

// Installation reads the row, and where the database is now.
func (s *Store) Installation(ctx context.Context) (in storage.Installation, err error) {
	err = s.inTx(ctx, "read the installation", func(tx pgx.Tx) error { // one connection: a pool may reach another server
		if in.Live, err = place(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT id::text, namespace, coalesce(system_identifier, 0), database_oid FROM installation`).
			Scan(&in.ID, &in.Namespace, &in.Stored.System, &in.Stored.Database)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return in, err
}

// Install writes the row.
func (s *Store) Install(ctx context.Context, namespace string, replace bool) error {
	return s.inTx(ctx, "write the installation", func(tx pgx.Tx) error {
		p, err := place(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO installation (namespace, system_identifier, database_oid) VALUES ($1, nullif($2, 0::bigint), $3)
			ON CONFLICT (one) DO UPDATE SET id = excluded.id, namespace = excluded.namespace,
				system_identifier = excluded.system_identifier, database_oid = excluded.database_oid WHERE $4`,
			namespace, p.System, p.Database, replace)
		return err
	})
}
